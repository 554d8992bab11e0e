"""LaTeX and plain-text expressions as trees: one scalar, no relations, lists or words.

Reading never evaluates, so that no expression is expensive to read. Grammar, loosest first:
sum, product (explicit or by juxtaposition), sign, power, factorial, atom.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

MAX_DEPTH = 500
"""Nesting that is followed."""
MAX_LENGTH = 12_000
"""Characters of an expression. A sum is as deep as it has terms: see `RECURSION_LIMIT`."""
_MAX_DIGITS = 4000
"""Of a number. Python reads no more than 4300 in less than quadratic time."""
RECURSION_LIMIT = 30_000
"""What Python's recursion limit has to be for the longest and deepest expression."""
FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc"),
        *("arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc"),
        *("sinh", "cosh", "tanh", "coth", "ln", "log", "lg", "exp", "cis"),
    )
)
_LETTERS = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi "
    "Omega ell hbar"
)
GREEK = frozenset(_LETTERS.split())
_TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+|\\[a-zA-Z]+|\\.|[a-zA-Z]'*|\S)", re.ASCII)
_PRODUCT = {"*": "*", "\\cdot": "*", "\\times": "*", "/": "/", "\\div": "/", "\\bmod": "mod"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "|": "|"}
_ROUNDING = {"\\lfloor": ("floor", "\\rfloor"), "\\lceil": ("ceil", "\\rceil")}
_OPAQUE = {"f", "g", "h", "F", "G", "P"}
_SUM, _TERM, _SIGN, _POWER = 10, 20, 25, 40


class NotReadable(ValueError):
    """The text is not one scalar expression of this grammar."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `op` is num, sym, const, apply, + * / mod ^ root neg ! abs binom floor ceil,
    or the name of a function."""

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: Fraction = Fraction(0)


@lru_cache(maxsize=4096)
def read_expression(text: str) -> Node:
    """The tree of `text`. Raises NotReadable."""
    if len(text) > MAX_LENGTH:
        raise NotReadable("too long")
    reader = _Reader(_TOKEN.findall(text))
    try:
        node = reader.expression(0)
    except RecursionError as problem:
        raise NotReadable("nested too deeply") from problem
    if reader.peek():
        raise NotReadable(f"{reader.peek()!r} was not expected")
    return node


def number(value: Fraction | int) -> Node:
    """A literal."""
    return Node("num", value=Fraction(value))


def symbols(node: Node) -> frozenset[str]:
    """Names of the free symbols."""
    own = frozenset([node.name]) if node.op in ("sym", "apply") else frozenset()
    return own.union(*(symbols(arg) for arg in node.args))


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._bars = 0

    def peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise NotReadable(f"{token!r} is missing")

    def expression(self, binding: int) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotReadable("nested too deeply")
        node = self._operand()
        while (joined := self._joined(node, binding)) is not None:
            node = joined
        self._depth -= 1
        return node

    def _joined(self, left: Node, binding: int) -> Node | None:
        token = self.peek()
        if token in ("+", "-") and binding < _SUM:
            self._next()
            right = self.expression(_SUM)
            return Node("+", (left, right if token == "+" else Node("neg", (right,))))
        if token in _PRODUCT and binding < _TERM:
            self._next()
            return Node(_PRODUCT[token], (left, self.expression(_TERM)))
        if token == "^" and binding < _POWER:
            self._next()
            return self._powered(left)
        if token == "!" and binding <= _POWER:
            self._next()
            return Node("!", (left,))
        if token == "%" and binding < _POWER:
            self._next()
            return Node("/", (left, number(100)))
        if binding < _TERM and self._starts_operand(token):
            return self._juxtaposed(left)
        return None

    def _starts_operand(self, token: str) -> bool:
        if token == "|":
            return self._bars == 0
        if token in ("(", "[", "{", "\\{") or token in _ROUNDING:
            return True
        return bool(token) and (token[0].isalnum() or token[0] == "." or self._command(token))

    def _command(self, token: str) -> bool:
        name = token[1:]
        known = name in FUNCTIONS or name in GREEK
        return token[0] == "\\" and (known or name in ("frac", "sqrt", "pi", "binom", "infty"))

    def _juxtaposed(self, left: Node) -> Node:
        before, token = self.peek(-1), self.peek()
        if before[:1].isdigit() and token[:1].isdigit():
            return self._mixed(left, self.expression(_TERM))
        if left.op == "num" and token == "\\frac":
            right = self._powers(self._operand())
            return self._mixed(left, right) if self._proper(left, right) else _product(left, right)
        return _product(left, self._powers(self._operand()))

    def _mixed(self, whole: Node, part: Node) -> Node:
        if not self._proper(whole, part):
            raise NotReadable("two numbers beside each other")
        return Node("+", (whole, part))

    def _proper(self, whole: Node, part: Node) -> bool:
        if whole.op != "num" or part.op != "/" or whole.value.denominator != 1:
            return False
        above, below = part.args
        literal = above.op == below.op == "num"
        return literal and 0 < above.value < below.value and above.value.denominator == 1

    def _powers(self, node: Node) -> Node:
        while self.peek() in ("^", "!"):
            joined = self._joined(node, _SIGN)
            assert joined is not None
            node = joined
        return node

    def _powered(self, base: Node) -> Node:
        exponent = self._script()
        if exponent == Node("sym", name="circ"):
            return Node("*", (base, Node("/", (Node("const", name="pi"), number(180)))))
        if exponent.op == "sym" and exponent.name == "prime":
            raise NotReadable("a mark, not an exponent")
        return Node("^", (base, exponent))

    def _script(self) -> Node:
        """What ^ or _ is followed by: a group, a signed atom, or a tower."""
        if self.peek() in ("-", "+"):
            sign = self._next()
            node = self._script()
            return Node("neg", (node,)) if sign == "-" else node
        node = self._group() if self.peek() in ("{", "(") else self._operand()
        if self.peek() == "^":
            self._next()
            return self._powered(node)
        return node

    def _group(self) -> Node:
        closing = _CLOSING[self._next()]
        bars, self._bars = self._bars, int(closing == "|")
        node = self.expression(0)
        self._expect(closing)
        self._bars = bars
        return node

    def _operand(self) -> Node:
        token = self.peek()
        if token in ("-", "+"):
            return self._signed()
        if token == "|":
            return Node("abs", (self._group(),))
        if token in _CLOSING:
            return self._group()
        self._next()
        if token in _ROUNDING:
            op, closing = _ROUNDING[token]
            node = self.expression(0)
            self._expect(closing)
            return Node(op, (node,))
        if token[:1].isdecimal() or token[:1] == ".":
            return self._number(token)
        if token[:1] == "\\":
            return self._command_operand(token[1:])
        if token[:1].isalpha() and token[:1].isascii():
            return self._symbol(token)
        raise _unexpected(token)

    def _signed(self) -> Node:
        negative = False
        while self.peek() in ("-", "+"):
            negative ^= self._next() == "-"
        node = self.expression(_TERM if not negative else _TERM - 1)
        return Node("neg", (node,)) if negative else node

    def _number(self, token: str) -> Node:
        if self.peek() == "_":
            raise NotReadable("a number in another base")
        if len(token) > _MAX_DIGITS:
            raise NotReadable("too many digits")
        return number(Fraction(token.rstrip(".") or "0"))

    def _command_operand(self, name: str) -> Node:
        if name == "frac":
            return Node("/", (self._argument(), self._argument()))
        if name == "binom":
            return Node("binom", (self._argument(), self._argument()))
        if name == "sqrt":
            return self._root()
        if name in FUNCTIONS:
            return self._function(name)
        if name in ("pi", "infty"):
            return Node("const", name=name)
        if name in GREEK or name in ("circ", "prime"):
            return self._symbol(name)
        raise _unexpected("\\" + name)

    def _argument(self) -> Node:
        """A braced group, or one digit or token as in \\frac12."""
        token = self.peek()
        if token == "{":
            return self._group()
        if token.isdigit() and len(token) > 1:
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        return self._operand()

    def _root(self) -> Node:
        degree = self._group() if self.peek() == "[" else number(2)
        radicand = self._group() if self.peek() == "{" else self._operand()
        return Node("root", (radicand, degree))

    def _function(self, name: str) -> Node:
        power = base = None
        while self.peek() in ("^", "_"):
            if self._next() == "^":
                power = self._script()
            else:
                base = self._argument()
        argument = self._applied()
        if power == Node("neg", (number(1),)) and name in ("sin", "cos", "tan", "cot"):
            return Node("arc" + name, (argument,))
        node = Node(name, (argument,) if base is None else (argument, base))
        return node if power is None else Node("^", (node, power))

    def _applied(self) -> Node:
        """The argument of a function: a group, or the factors up to the next sign or function."""
        if self.peek() in ("(", "[", "{"):
            node = self._powers_of_group()
        else:
            node = self._powers(self._operand())
            while self._starts_operand(self.peek()) and self.peek()[1:] not in FUNCTIONS:
                if self.peek() in ("(", "["):
                    break
                node = _product(node, self._powers(self._operand()))
        return node

    def _powers_of_group(self) -> Node:
        braced = self.peek() == "{"
        node = self._group()
        return self._powers(node) if braced else node

    def _symbol(self, name: str) -> Node:
        if self.peek() == "_":
            self._next()
            name += "_" + self._subscript()
        if name == "e":
            return Node("const", name="e")
        if name == "i":
            return Node("const", name="i")
        if name.rstrip("'")[:1] in _OPAQUE and self.peek() == "(":
            argument = self._group()
            # A principal times a bracket; a probability is of one event.
            if name == "P" and argument.op != "sym":
                return _product(Node("sym", name=name), self._powers(argument))
            return Node("apply", (argument,), name)
        return Node("sym", name=name)

    def _subscript(self) -> str:
        if self.peek() != "{":
            return self._next()
        self._next()
        parts: list[str] = []
        while self.peek() not in ("}", ""):
            parts.append(self._next())
        self._expect("}")
        return "".join(parts)


def _unexpected(token: str) -> NotReadable:
    return NotReadable(f"{token!r} was not expected" if token else "it ends too early")


def _product(left: Node, right: Node) -> Node:
    return Node("*", (left, right))
