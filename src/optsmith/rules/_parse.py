"""Iterative precedence parser: ordinary math to operators in prefix order.

There is no recursion and no `eval`, so untrusted text is safe to parse. Errors carry a position.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from optsmith._errors import RuleError
from optsmith._registry import did_you_mean
from optsmith.rules._operator import Operator, number, operators
from optsmith.rules._print import INFIX, POWER, PREFIX
from optsmith.rules._tokens import Token, tokenize

MAX_TEXT = 20_000
MAX_LENGTH = 1_000
MAX_NESTING = 200

_INFIX = {operators[name].symbol: (operators[name], binds) for name, binds in INFIX.items()}

Operand = tuple[Operator, ...]


@dataclass(slots=True)
class _Frame:
    """State of one open bracket, bar or call, or of the whole text."""

    opener: str
    position: int
    call: Operator | None = None
    done: list[Operand] = field(default_factory=list)
    waiting: list[tuple[Operator, int]] = field(default_factory=list)
    arguments: list[tuple[str, Operand, int]] = field(default_factory=list)
    keyword: str = ""
    argument_at: int = 0

    @property
    def starts_argument(self) -> bool:
        """Whether a call is open and its next argument has not started."""
        return self.call is not None and not (self.done or self.waiting or self.keyword)

    def reduce(self, binds: int) -> None:
        """Apply the pending operators of precedence `binds` or higher."""
        while self.waiting and self.waiting[-1][1] >= binds:
            operator, _ = self.waiting.pop()
            operands = self.done[-operator.arity :]
            del self.done[-operator.arity :]
            self.done.append((operator, *(o for operand in operands for o in operand)))

    def finish_argument(self) -> None:
        self.reduce(0)
        self.arguments.append((self.keyword, self.done.pop(), self.argument_at))
        self.keyword = ""


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


def _operator(token: Token) -> Operator:
    operator = operators.get(token.text)
    if operator is None:
        hint = did_you_mean(token.text, operators) or f"; known: {', '.join(operators)}"
        raise RuleError(f'unknown name "{_shorten(token.text)}"{hint}', token.position)
    return operator


def _literal(token: Token) -> Operand:
    value = float(token.text)
    digits = re.split("[eE]", token.text)[0]
    if math.isinf(value) or (value == 0 and digits.strip("0.")):
        size = "large" if value else "small"
        raise RuleError(f"the number {_shorten(token.text)} is too {size}", token.position)
    return (number(value),)


def _parameter(operator: Operator, operand: Operand, at: int) -> float:
    """Return the value of a parameter: a number, possibly negated."""
    *signs, literal = operand
    if literal.feed != "nothing" or any(sign.name != "neg" for sign in signs):
        names = ", ".join(p.name for p in operator.parameters)
        raise RuleError(f"a parameter of {operator.name} ({names}) must be a number", at)
    return float(literal.torch(*literal.values)) * (-1.0 if len(signs) % 2 else 1.0)


def _call(frame: _Frame) -> Operand:
    """Return the operators of a closed call; its arguments are operands, then parameters."""
    operator = frame.call
    assert operator is not None  # noqa: S101 - only called with call frames
    arity = operator.arity
    if len(frame.arguments) < arity or len(frame.arguments) > arity + len(operator.parameters):
        count = f"{arity} argument{'s' if arity != 1 else ''}"
        if operator.parameters:
            count += f" and at most {len(operator.parameters)} parameters"
        raise RuleError(
            f"{operator.name} takes {count}, not {len(frame.arguments)}", frame.position
        )
    operands, values, named = [], [], {}
    for i, (keyword, operand, at) in enumerate(frame.arguments):
        if i < arity:
            if keyword:
                raise RuleError(f"{operator.name} needs its argument before {keyword}=", at)
            operands.append(operand)
        elif keyword:
            if keyword in named:
                raise RuleError(f"{operator.name}: {keyword} is given twice", at)
            named[keyword] = _parameter(operator, operand, at)
        elif named:
            raise RuleError("a positional parameter cannot follow a named one", at)
        else:
            values.append(_parameter(operator, operand, at))
    if operator.bars and operands[0][0].name == "abs":
        operands[0] = operands[0][1:]
    try:
        variant = operator.variant(*values, **named) if values or named else operator
    except RuleError as error:
        raise RuleError(str(error), frame.position) from None
    return (variant, *(o for operand in operands for o in operand))


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)
        self.at = 0
        self.frames = [_Frame("", 0)]
        self.count = 0

    def run(self) -> Operand:
        needs_operand = True
        while True:
            token = self.tokens[self.at]
            self.at += 1
            if self.count > MAX_LENGTH:
                raise RuleError(f"the rule has more than {MAX_LENGTH} operators", token.position)
            if needs_operand:
                needs_operand = self._operand(token)
            elif token.kind == "end":
                return self._end()
            else:
                needs_operand = self._operator(token)

    def _open(self, opener: str, position: int, call: Operator | None = None) -> None:
        if len(self.frames) > MAX_NESTING:
            raise RuleError(f"brackets are nested more than {MAX_NESTING} deep", position)
        self.frames.append(_Frame(opener, position, call, argument_at=position))

    def _operand(self, token: Token) -> bool:
        """Consume a token where an operand starts; return whether an operand is still needed."""
        frame = self.frames[-1]
        follows = self.tokens[self.at].text if token.kind != "end" else ""
        if token.kind == "number":
            frame.done.append(_literal(token))
        elif token.kind == "name" and follows == "=" and frame.starts_argument:
            frame.keyword = token.text
            self.at += 1
            return True
        elif token.kind == "name" and follows == "(":
            self.at += 1
            self._open("(", token.position, _operator(token))
            return True
        elif token.kind == "name":
            operator = _operator(token)
            if operator.arity:
                example = f"{operator.name}({', '.join(['g', 'm1'][: operator.arity])})"
                raise RuleError(f"{operator.name} needs an argument: {example}", token.position)
            frame.done.append((operator,))
        elif token.text in ("(", "|"):
            self._open(token.text, token.position)
            return True
        elif token.text == "-":
            frame.waiting.append((operators["neg"], PREFIX))
            self.count += 1
            return True
        elif token.text == ")" and frame.starts_argument and not frame.arguments:
            self._close(token)
        elif token.kind == "end":
            raise RuleError("the rule is incomplete: an operand is missing", token.position)
        else:
            raise RuleError(
                f'unexpected "{token.text}"; an operand (an input, a number or "(") is expected',
                token.position,
            )
        self.count += 1
        return False

    def _operator(self, token: Token) -> bool:
        """Consume a token after an operand; return whether an operand must follow."""
        frame = self.frames[-1]
        sign = "^" if token.text == "**" else token.text
        if sign in _INFIX:
            operator, binds = _INFIX[sign]
            # ^ is right-associative, the others are left-associative.
            frame.reduce(binds + 1 if binds == POWER else binds)
            frame.waiting.append((operator, binds))
            self.count += 1
            return True
        if sign == "," and frame.call:
            frame.finish_argument()
            frame.argument_at = self.tokens[self.at].position
            return True
        if sign in (")", "|"):
            self._close(token)
            return False
        if token.kind == "sign" and sign != "(":
            raise RuleError(f'unexpected "{token.text}"', token.position)
        raise RuleError(
            f'an operator is missing before "{_shorten(token.text)}"; did you mean'
            f' "*{_shorten(token.text)}"?',
            token.position,
        )

    def _close(self, token: Token) -> None:
        frame = self.frames[-1]
        if frame.opener != ("|" if token.text == "|" else "("):
            hint = f'; "{frame.opener}" at {frame.position} is still open' if frame.opener else ""
            raise RuleError(f'unmatched "{token.text}"{hint}', token.position)
        self.frames.pop()
        if frame.call:
            if frame.done:
                frame.finish_argument()
            result = _call(frame)
        else:
            frame.reduce(0)
            result = frame.done.pop()
            if frame.opener == "|":
                self.count += 1
                result = (operators["abs"], *result)
        self.frames[-1].done.append(result)

    def _end(self) -> Operand:
        frame = self.frames.pop()
        if frame.opener:
            raise RuleError(f'"{frame.opener}" is never closed', frame.position)
        frame.reduce(0)
        return frame.done.pop()


def parse(text: str) -> Operand:
    """Return the operators of a rule's text in prefix order.

    Raises:
        RuleError: The text is not a rule, or exceeds the limits of this module.
    """
    if not isinstance(text, str):
        raise RuleError(f"the text of a rule must be a str, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise RuleError(f"the text has {len(text)} characters; at most {MAX_TEXT} are allowed")
    return _Parser(text).run()
