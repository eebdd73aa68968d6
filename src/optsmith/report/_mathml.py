r"""LaTeX formulas as MathML, which browsers set without a font or a script.

Only the LaTeX that rules are made of is understood: rules' own, and what a user's operator may
reasonably add (Greek letters, accents, fonts). Anything else is reported, not guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from optsmith.report._html import Content, Markup, tag

DEEPEST = 60
"""Nesting beyond this is not set: nobody could read it, and reading it here recurses."""

WORDS = r"\\(?:operatorname|mathrm|mathsf|mathtt|text|textrm)\s*\{(?:[^{}\\^$]|\\[_ %&#])+\}"
PIECE = re.compile(rf"{WORDS}|\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|[^\s]", re.DOTALL)

LETTERS = {
    "varepsilon": "ε",
    "varphi": "φ",
    "ell": "ℓ",  # noqa: RUF001 - a script l
    "nabla": "∇",
    "partial": "∂",
    "infty": "∞",
    "square": "□",
}
SIGNS = {
    "cdot": "⋅",
    "times": "×",  # noqa: RUF001 - a multiplication sign
    "odot": "⊙",
    "circ": "∘",
    "pm": "±",
    "div": "÷",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "approx": "≈",
    "to": "→",
    "leftarrow": "←",
    "ldots": "…",
    "cdots": "⋯",
    "mid": "∣",  # noqa: RUF001 - a divides sign
    "%": "%",
    "&": "&",
    "#": "#",
    "_": "_",
}
FUNCTIONS = frozenset(
    {"log", "ln", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "max", "min"}
)
SPACES = {",": "0.167em", ":": "0.222em", ";": "0.278em", " ": "0.25em", "quad": "1em", "!": ""}
ACCENTS = {"hat": "^", "widehat": "^", "bar": "¯", "overline": "¯", "tilde": "~", "dot": "˙",
           "ddot": "¨", "vec": "→"}  # fmt: skip
FONTS = {"mathbf": "bold", "boldsymbol": "bold", "mathit": "italic"}
FENCES = {"(": "(", ")": ")", "[": "[", "]": "]", "|": "|", r"\{": "{", r"\}": "}", r"\|": "‖",
          r"\lvert": "|", r"\rvert": "|", r"\lVert": "‖", r"\rVert": "‖", r"\langle": "⟨",
          r"\rangle": "⟩", r"\lfloor": "⌊", r"\rfloor": "⌋", r"\lceil": "⌈", r"\rceil": "⌉",
          ".": ""}  # fmt: skip


class _UnknownError(Exception):
    """LaTeX that is not understood."""


class _Reader:
    """Reads pieces once, from left to right."""

    def __init__(self, latex: str) -> None:
        self.pieces = PIECE.findall(latex)
        self.place = 0
        self.depth = 0

    @property
    def next(self) -> str:
        return self.pieces[self.place] if self.place < len(self.pieces) else ""

    def take(self, expected: str = "") -> str:
        piece = self.next
        if not piece or (expected and piece != expected):
            raise _UnknownError
        self.place += 1
        return piece

    def row(self, *until: str) -> list[Content]:
        """Read up to one of `until`, or to the end when none is given."""
        parts: list[Content] = []
        while self.next not in until:
            if not self.next and not until:
                break
            parts.append(self.scripted())
        return parts

    def scripted(self) -> Content:
        """Read one atom with what stands under and over its shoulder."""
        atom, scripts = self.atom(), dict[str, Content]()
        while self.next in ("^", "_"):
            kind = self.take()
            if kind in scripts:
                raise _UnknownError
            scripts[kind] = self.argument()
        if not scripts:
            return atom
        name = {"^": "msup", "_": "msub"}[next(iter(scripts))] if len(scripts) == 1 else "msubsup"
        return tag(name, tag("mrow", atom), [scripts[kind] for kind in "_^" if kind in scripts])

    def argument(self) -> Markup:
        """Read a group in braces or a single atom, as one element."""
        return tag("mrow", self.atom())

    def atom(self) -> Content:
        """Read the smallest thing that can carry a script."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise _UnknownError
        atom = self.plain(self.take())
        self.depth -= 1
        return atom

    def plain(self, piece: str) -> Content:
        if piece == "{":
            parts = self.row("}")
            self.take("}")
            return tag("mrow", parts)
        if re.fullmatch(WORDS, piece):
            return self.words(piece)
        if piece.startswith("\\"):
            return self.command(piece[1:])
        if piece[0].isdigit() or piece[0] == ".":
            return tag("mn", piece)
        if piece.isalpha():
            return tag("mi", piece)
        if piece in "()[]|":
            return tag("mo", piece, stretchy="false")
        if piece in "+-*/=<>,;:!'":
            return tag("mo", "\N{MINUS SIGN}" if piece == "-" else piece)
        raise _UnknownError

    def command(self, name: str) -> Content:
        letter = LETTERS.get(name) or _greek(name)
        if letter:
            return tag("mi", letter)
        if name in SIGNS:
            return tag("mo", SIGNS[name])
        if name in FUNCTIONS:
            return [tag("mi", name), self.applied()]
        if name in SPACES:
            return tag("mspace", width=SPACES[name]) if SPACES[name] else None
        if name in FONTS:
            return tag("mrow", self.argument(), style=f"font-{_font(FONTS[name])}")
        if name in ACCENTS:
            return tag("mover", self.argument(), tag("mo", ACCENTS[name]), accent="true")
        known: dict[str, Callable[[], Content]] = {
            "left": self.fenced,
            "frac": lambda: tag("mfrac", self.argument(), self.argument()),
            "sqrt": lambda: tag("msqrt", self.argument()),
        }
        if name in known:
            return known[name]()
        if f"\\{name}" in FENCES:
            return tag("mo", FENCES[f"\\{name}"], stretchy="false")
        raise _UnknownError

    def words(self, piece: str) -> Content:
        """Set a name in braces upright."""
        command, _, name = piece[1:-1].partition("{")
        name = name.replace("\\", "")
        element = tag("mi", name, mathvariant="normal" if len(name) == 1 else None)
        return [element, self.applied()] if command.strip() == "operatorname" else element

    def applied(self) -> Content:
        """Return what joins a function to what follows."""
        following = "".join(self.pieces[self.place : self.place + 2])
        if following.startswith(("(", "[", r"\left(", r"\left[")):
            return tag("mo", "\N{FUNCTION APPLICATION}")
        return None if following[:1] in ("^", "_", "") else tag("mspace", width="0.167em")

    def fenced(self) -> Content:
        r"""Read `\left( … \right)`."""
        opening = self.fence("prefix")
        parts = self.row(r"\right")
        self.take(r"\right")
        return tag("mrow", opening, parts, self.fence("postfix"))

    def fence(self, form: str) -> Content:
        piece = self.take()
        if piece not in FENCES:
            raise _UnknownError
        return tag("mo", FENCES[piece], form=form, stretchy="true") if FENCES[piece] else None


def _greek(name: str) -> str | None:
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    # Unicode's own name of lambda has no b.
    name = name.upper().replace("LAMBDA", "LAMDA")
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name}")
    except KeyError:
        return None


def _font(kind: str) -> str:
    return "weight:bold" if kind == "bold" else "style:italic"


def to_mathml(latex: str) -> Markup | None:
    """Return a formula as MathML, or None when it holds LaTeX that is not understood."""
    try:
        parts = _Reader(latex).row()
    except _UnknownError:
        return None
    return tag("math", tag("mrow", parts), display="block") if parts else None
