r"""LaTeX in one spelling: formatting goes, synonyms become one command, words stay in \text."""

from __future__ import annotations

import re


def _each(names: str, replacement: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), replacement)


_COMMANDS = {
    **_each(
        "left right bigl bigr Bigl Bigr biggl biggr Biggl Biggr big Big bigg Bigg middle "
        "displaystyle textstyle ensuremath limits nolimits mathstrut rm bf it boldsymbol bm",
        "",
    ),
    **_each("quad qquad enspace thinspace space", " "),
    **_each("dfrac tfrac cfrac nicefrac sfrac", "\\frac"),
    **_each("dbinom tbinom", "\\binom"),
    **_each("leq leqslant leqq", "\\le"),
    **_each("geq geqslant geqq", "\\ge"),
    **_each("neq", "\\ne"),
    **_each("approx simeq thickapprox doteq", "\\approx"),
    **_each("lbrace", "\\{"),
    **_each("rbrace", "\\}"),
    **_each("langle lparen", "("),
    **_each("rangle rparen", ")"),
    **_each("lbrack", "["),
    **_each("rbrack", "]"),
    **_each("lvert rvert vert mid", "|"),
    **_each("degree", "^\\circ"),
    **_each("varnothing", "\\emptyset"),
    **_each("dots cdots dotsc", "\\ldots"),
    **_each("mathrm textbf textit textrm textsf texttt mathbf mathit mathsf", ""),
    **_each("lor vee", "\\or"),
    **_each("land wedge", "\\and"),
    "lt": "<",
    "gt": ">",
    "smallsetminus": "\\setminus",
    "backslash": "\\setminus",
    "iff": "\\or",
    "ast": "*",
    "mod": "\\bmod",
    "tg": "\\tan",
    "ctg": "\\cot",
    "arctg": "\\arctan",
    "cosec": "\\csc",
    "varpi": "\\pi",
    "imath": "i",
    "mathrmi": "i",
    "mathrme": "e",
}
_TEXT = "text|mbox|hbox|textbf|textit|textrm|textnormal|textsf|texttt|mathrm|mathbf|mathit|mathsf"
_TEXT_GROUP = re.compile(
    rf"\\(?:{_TEXT}|operatorname\*?|boldsymbol|bm|emph)\s*\*?\s*\{{([^{{}}]*)\}}"
)
_COMMAND = re.compile(r"\\([a-zA-Z]+)\*?")
_ORNAMENT = re.compile(
    r"\\(?:checkmark|square|blacksquare|Box|qed|ldotp|huge|Huge|large|Large|LARGE|small|tiny"
    r"|therefore|because)(?![a-zA-Z])|\\(?:phantom|hspace|vspace|tag\*?|color|label)\s*\{[^{}]*\}"
    r"|\\textcolor\s*\{[^{}]*\}|\\cancel\s*\{\s*\}|\\underline(?![a-zA-Z])"
)
_ENVIRONMENT = re.compile(
    r"\\begin\{(align|aligned|alignat|equation|gather|gathered|split|multline)\*?\}(.*?)"
    r"\\end\{\1\*?\}",
    re.DOTALL,
)
_ROW_GAP = re.compile(r"\\\\\s*\[\s*[\d.]+\s*(?:pt|em|ex|mm|cm|in|px)\s*\]")
_SUCH_THAT = re.compile(r"\\mid(?![a-zA-Z])")
_LEFT_OPEN, _RIGHT_OPEN = re.compile(r"\\left\s*\]"), re.compile(r"\\right\s*\[")
_SUBSCRIPT_GAP = re.compile(r"(?<=\d)\s+(?=_)")
_SPELLED_COMMA = re.compile(r"(?:(?<=thousand)|(?<=million)|(?<=billion)), (?=[a-z])")
_LEFT_BRACE_ARRAY = re.compile(
    r"\\left\s*\\(?:\{|lbrace)\s*\\begin\{(array|aligned|matrix)\}(?:\s*\{[lcr|\s]*\})?"
    r"(.*?)\\end\{\1\}\s*\\right\s*\.?",
    re.DOTALL,
)
_CASES = re.compile(r"\\begin\{cases\}([^&]*?)\\end\{cases\}")
_NUMBER_SET = re.compile(r"\\(?:mathbf|mathbb|Bbb|mathrm|bf)\s*\{?\s*([RZNQC])\s*\}?(?![a-zA-Z])")
_UNIT_NAME = (
    "(?:[kcm]?m|[km]?g|lb|oz|in|ft|yd|mi|s|h|hr|min|ms|m?[lL]|gal|mol|rad|k?[NJWV]|k?Pa|Hz)"
)
_UNIT_LETTER = (
    r"\\(?:text|mathrm|mbox|rm)\s*\{[\s~]*"
    rf"({_UNIT_NAME}(?:\s*/\s*{_UNIT_NAME})?(?:\^?\d)?)[\s~]*\}}"
)
_UNIT_PRODUCT = re.compile(rf"{_UNIT_NAME}(?:\s*[ /]\s*{_UNIT_NAME}(?:\^-?\d)?)+")
_UNIT_CHAIN = re.compile(
    rf"(?<=[\d}})~ ,])\s*{_UNIT_LETTER}(?:\s*(/|\\cdot)\s*{_UNIT_LETTER})?(\^\{{?-?\d\}}?)?"
)
_UNIT_POWER = re.compile(r"(\\(?:text|mathrm|rm)\s*\{[^{}]*?)\^\s*\{\s*(-?\d)\s*\}(?=[^{}]*\})")
_UNIT_FRACTION = re.compile(rf"\\frac\s*\{{\s*{_UNIT_LETTER}\s*\}}\s*\{{\s*{_UNIT_LETTER}\s*\}}")
AND_OR = (
    r"(?<!hundred )(?<!thousand )(?<!million )(?<!billion )(?<![\\a-zA-Z{])"
    r"(and|or)(?![a-zA-Z}])"
    r"(?! (?:a|one|two|three|four|five|six|seven|eight|nine) (?:hal(?:f|ves)"
    r"|(?:third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s?)\b)"
)
"""Between alternatives, and not inside a number in words."""
_LEADING_AND = re.compile(
    r"and (?!(?:an?|half|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|[a-z]+teen|[a-z]+ty)\b)(?=\S+ )"
)
_AND_OR = re.compile(rf"\s+{AND_OR}\s+")
_CHOOSE = re.compile(r"\{([^{}]*)\\choose([^{}]*)\}")
_PRIME = re.compile(r"\^\s*(?:\{\s*((?:\\prime\s*)+)\}|(\\prime))")
_ARROW = re.compile(
    r"\\(?:vec|hat|overrightarrow|widehat)\s*(?:\{\s*([a-zA-Z])\s*\}|([a-zA-Z]))(?![a-zA-Z])"
)
_BAR = re.compile(r"\\(bar|tilde|overline)\s*(?:\{\s*([a-zA-Z])\s*\}|([a-zA-Z])(?![a-zA-Z]))")
_SPACING = re.compile(r"(?<!\\)\\(?:[,;:! ]|(?=\s|$))")
_DOUBLED = re.compile(r"\\\\(?=[a-zA-Z(\[])")
DOLLAR = "\N{FULLWIDTH DOLLAR SIGN}"
"""The currency; a plain dollar sign encloses mathematics."""
_DOLLARS = re.compile(r"\\\$(?=\s*[\d.])")
_NOT = re.compile(r"\\not\s*(=|<|>|\\(?:in|equiv|subset|subseteq|mid|le|leq|ge|geq)(?![a-zA-Z]))")
_DENIED = {"=": "\\ne ", "<": "\\ge ", ">": "\\le ", "\\in": "\\notin "}
_OVERLINED_DIGITS = re.compile(r"\\overline\s*\{\s*([0-9A-F]+)\s*\}\s*(?=_)")
_DELIMITER = re.compile(r"\\[()\[\]]|\\?\$")
_NAMED = (
    "arcsin arccos arctan arcsec arccsc arccot sinh cosh tanh coth sin cos tan cot sec csc log ln "
    "exp lg cis"
)
_LETTERS = "pi alpha beta gamma delta theta lambda phi omega"
WORDS: dict[str, str] = {
    **{name: f"\\{name} " for name in f"{_NAMED} {_LETTERS}".split()},
    **dict.fromkeys(("asin", "arcsine"), "\\arcsin "),
    **dict.fromkeys(("acos", "arccosine"), "\\arccos "),
    **dict.fromkeys(("atan", "arctangent"), "\\arctan "),
    **dict.fromkeys(("infinity", "inf", "oo", "Infinity"), "\\infty "),
    "union": "\\cup ",
    "sqrt": "\\sqrt",
    "cbrt": "\\sqrt[3]",
    "or": "\\or ",
    "and": "\\and ",
}
OPERATORS = frozenset(WORDS) - {"inf", "oo", *_LETTERS.split()}
"""Those that also count inside \\text{...}."""


def from_latex(text: str) -> str:
    """`text` in the dialect that math_text describes."""
    text = _ROW_GAP.sub(r"\\\\ ", _SPELLED_COMMA.sub(" ", text))
    text = _RIGHT_OPEN.sub(")", _LEFT_OPEN.sub("(", text))
    text = _SUCH_THAT.sub(":", text) if "\\{" in text else text
    text = _LEFT_BRACE_ARRAY.sub(r"\\begin{cases}\2\\end{cases}", text)
    text = _ORNAMENT.sub(" ", _ENVIRONMENT.sub(_last_line, text))
    text = _CASES.sub(lambda match: match[1].replace("\\\\", ", "), text)
    if "matrix" not in text and "array" not in text and "cases" not in text:
        text = _DOUBLED.sub(r"\\", text)
    text = _DOLLARS.sub(DOLLAR, _SPACING.sub(" ", text).replace("\\%", "%"))
    text = _DELIMITER.sub(" ", text).replace("\\#", "#").replace("\\_", "_").replace("\\&", "&")
    text = _SUBSCRIPT_GAP.sub("", text)
    text = _UNIT_POWER.sub(r"\1^\2", text)
    text = _UNIT_FRACTION.sub(r"\\text{\1/\2}", text)
    text = _UNIT_CHAIN.sub(_unit_chain, text)
    text = _OVERLINED_DIGITS.sub(r"\1", _NOT.sub(_denied, text))
    text = _CHOOSE.sub(r"\\binom{\1}{\2}", text)
    text = _ARROW.sub(r" \1\2", _PRIME.sub(_primes, text))
    text = _BAR.sub(r" \2\3_{\1}", text).replace("\\colon", ":")
    text = _NUMBER_SET.sub(r"\\mathbb{\1}", text)
    text = _TEXT_GROUP.sub(_text_group, text)
    return _COMMAND.sub(_command, text).replace("\\unit{", "\\text{")


def _unit_chain(match: re.Match[str]) -> str:
    joint = "/" if match[2] == "/" else " "
    return f"\\unit{{{match[1]}{joint + match[3] if match[3] else ''}}}{match[4] or ''}"


def _denied(match: re.Match[str]) -> str:
    return _DENIED.get(match[1]) or f"\\n{match[1][1:]} "


def _primes(match: re.Match[str]) -> str:
    return "'" * (match[1] or match[2]).count("\\prime")


def _last_line(match: re.Match[str]) -> str:
    """The last line of an environment, with the lines before it that it continues."""
    kept: list[str] = []
    for line in reversed([line for line in re.split(r"\\\\", match[2]) if line.strip()]):
        kept.insert(0, line)
        if not line.lstrip().lstrip("&").lstrip().startswith("=") or line.strip()[0] not in "&=":
            break
    return " ".join(kept).replace("&", " ")


def _command(match: re.Match[str]) -> str:
    replacement = _COMMANDS.get(match[1])
    return match[0] if replacement is None else replacement + " "


def _text_group(match: re.Match[str]) -> str:
    content = match[1].strip()
    if content in OPERATORS:
        return " " + WORDS[content]
    if joined := _AND_OR.search(content):
        before, after = content[: joined.start()], content[joined.end() :]
        return _text(before) + WORDS[joined[1]] + _text(after)
    return _text(content)


def _text(content: str) -> str:
    if leading := _LEADING_AND.match(content):
        return WORDS["and"] + _text(content[leading.end() :])
    content, joint = _without_joint(content.strip())
    if _UNIT_PRODUCT.fullmatch(content):
        return f"\\text{{{content}}}"
    if not re.search(r"[a-zA-Z]{2}", content) or re.fullmatch(r"\\[a-zA-Z]+", content):
        return f" {content} " if len(content) != 1 else content
    words = ", ".join(f"\\text{{{part}}}" for part in content.split(",") if part.strip())
    return words + joint


def _without_joint(content: str) -> tuple[str, str]:
    """Words such as "boys and" as the words, and the operator behind them."""
    for word in ("and", "or"):
        if content.endswith(" " + word):
            return content[: -len(word)].strip(), f" \\{word} "
    return content, ""
