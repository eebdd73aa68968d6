"""`optsmith completion`: prints the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    r"""Print the completion script for SHELL.

    \b
    bash, in ~/.bashrc:  eval "$(optsmith completion bash)"
    zsh, in ~/.zshrc:    eval "$(optsmith completion zsh)"
    fish:                optsmith completion fish > ~/.config/fish/completions/optsmith.fish
    """
    script = get_completion_class(shell)
    if script is None:  # every shell of SHELLS has one
        raise click.UsageError(f"no completion for {shell}")
    root = ctx.find_root()
    click.echo(script(root.command, {}, "optsmith", "_OPTSMITH_COMPLETE").source())
