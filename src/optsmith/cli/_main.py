"""The `optsmith` command group; prints errors as one line."""

from __future__ import annotations

import os
import sys

import click

from optsmith._errors import OptsmithError, TaskFailure
from optsmith._version import __version__
from optsmith.cli._card import card
from optsmith.cli._compare import compare
from optsmith.cli._completion import completion
from optsmith.cli._data import data_command
from optsmith.cli._evaluate import evaluate
from optsmith.cli._export import export
from optsmith.cli._finish import finish
from optsmith.cli._report import report
from optsmith.cli._search import search
from optsmith.cli._show import show
from optsmith.cli._tasks import tasks_command
from optsmith.cli._zoo import zoo_command


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="optsmith", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Search for update rules to train neural networks with.

    A rule is a formula of the gradient, such as "ld*sign(m1) - Adam"; `optsmith zoo` lists known
    rules.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (
    search,
    finish,
    evaluate,
    report,
    compare,
    card,
    show,
    zoo_command,
    export,
    tasks_command,
    data_command,
    completion,
):
    cli.add_command(_command)


def _fail(message: str) -> None:
    sys.stderr.write(f"optsmith: {' '.join(message.split())}\n")
    sys.exit(2)


def _show_failure(failure: TaskFailure) -> None:
    sys.stderr.write(f"optsmith: {' '.join(str(failure).split())}\n")
    if failure.traceback:
        sys.stderr.write(f"\n{failure.traceback}\n")
    sys.exit(1)


def main() -> None:
    """Run the command; invalid input prints one line to stderr and exits with code 2.

    An error in the code of a task prints its traceback and exits with code 1.
    """
    try:
        cli.main(prog_name="optsmith", standalone_mode=False)
        sys.stdout.flush()
    except click.NoSuchOption as error:
        _fail(f"{error.format_message()} Put -- before a rule that starts with a minus")
    except click.ClickException as error:
        _fail(error.format_message())
    except TaskFailure as failure:
        _show_failure(failure)
    except OptsmithError as error:
        _fail(str(error))
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; prevents a message from Python at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
