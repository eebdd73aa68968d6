"""Tokenizer of the text of rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from optsmith._errors import RuleError
from optsmith.rules._operator import NAME

_TOKEN = re.compile(
    rf"(?P<space>[ \t\r\n]+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"|(?P<name>{NAME.pattern})|(?P<sign>\*\*|[-+*/^(),|=])",
    re.ASCII,
)
_LOOKALIKES = {
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{DIVISION SIGN}": "/",
    "[": "(",
    "]": ")",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A number, a name, a sign or the end of the text, with its position."""

    kind: str
    text: str
    position: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text; the last one is its end.

    Raises:
        RuleError: The text is empty or has an unexpected character.
    """
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            character = text[at]
            shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
            meant = _LOOKALIKES.get(character)
            hint = f'; did you mean "{meant}"?' if meant else ""
            raise RuleError(f"unexpected character {shown}{hint}", at)
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(Token(kind, match.group(), at))
        at = match.end()
    if not tokens:
        raise RuleError("the rule is empty; write an expression such as m1 + g")
    tokens.append(Token("end", "", len(text)))
    return tokens
