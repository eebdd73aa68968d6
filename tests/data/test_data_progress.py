"""Progress bars on a terminal, and no output otherwise."""

from __future__ import annotations

import io
import sys

from toy_data import CONTENT, toy, urls

from optsmith.data._provide import provide


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_what_is_done(host, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    dataset = toy(urls(host.base + "nothing/"), urls(host.base))
    assert dataset.read(provide(dataset)) == CONTENT
    lines = " ".join(terminal.getvalue().split())
    assert "404 Not Found" in lines
    assert "toy: fetched from 127.0.0.1" in lines


def test_anything_else_sees_nothing(host, capsys):
    provide(toy(urls(host.base)))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
