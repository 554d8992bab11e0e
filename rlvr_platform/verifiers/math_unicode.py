# ruff: noqa: RUF001  (the look-alikes are what is replaced)
"""Unicode mathematics as LaTeX: digits, operators, Greek letters, scripts, fractions, roots."""

from __future__ import annotations

import re
import unicodedata

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
    "varsigma sigma tau upsilon phi chi psi omega"
)
_SUPERSCRIPT = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ", "0123456789+-nx", strict=True))
_SUBSCRIPT = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_CHARACTERS = str.maketrans(
    {
        **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)},
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\u202c\u2061\u2062", ""),
        **dict.fromkeys("✓✔✅☑🎉🎯🏆👍∎■\ufe0f", ""),
        **dict.fromkeys("~\u00a0\u202f\u2009\u2007\u2008\u2003\u2002\u3000\n\t", " "),
        **dict.fromkeys("−–‐‑—﹣", "-"),
        **dict.fromkeys("×✕⋅·∙", " \\cdot "),
        **dict.fromkeys("⁄∕", "/"),
        **dict.fromkeys("“”″", '"'),
        **dict.fromkeys("’′", "'"),
        "÷": "/",
        "≤": " \\le ",
        "⩽": " \\le ",
        "≥": " \\ge ",
        "⩾": " \\ge ",
        "≠": " \\ne ",
        "≈": " \\approx ",
        "≡": " \\equiv ",
        "±": " \\pm ",
        "∓": " \\mp ",
        "∞": " \\infty ",
        "∪": " \\cup ",
        "∩": " \\cap ",
        "∈": " \\in ",
        "∅": " \\emptyset ",
        "ℝ": "\\mathbb{R}",
        "ℤ": "\\mathbb{Z}",
        "ℕ": "\\mathbb{N}",
        "ℚ": "\\mathbb{Q}",
        "°": "^\\circ ",
        "…": "\\ldots ",
        "⟨": "(",
        "⟩": ")",
        "，": ",",
        "、": ",",
        "；": ";",
        "：": ":",
        **{
            chr(code): f"\\frac{{{unicodedata.normalize('NFKC', chr(code)).replace('⁄', '}{')}}}"
            for code in (*range(0xBC, 0xBF), *range(0x2150, 0x215F))
        },
        **{chr(0x3B1 + i): f"\\{name} " for i, name in enumerate(_GREEK.split())},
        "Δ": "\\Delta ",
        "Ω": "\\Omega ",
        "Σ": "\\Sigma ",
        "Θ": "\\Theta ",
        "ϕ": "\\phi ",
    }
)
_SCRIPTS = re.compile("[" + "".join(_SUPERSCRIPT) + "]+|[" + "".join(_SUBSCRIPT) + "]+")
_UNICODE_ROOT = re.compile(r"(√|∛)\s*(\d+(?:\.\d+)?|[a-zA-Z])?")


def from_unicode(text: str) -> str:
    """`text` in ASCII as far as it is mathematics; every kind of blank becomes a space."""
    if text.isascii():
        return text.replace("\n", " ").replace("\t", " ").replace("~", " ")
    text = _SCRIPTS.sub(_script, text.translate(_CHARACTERS))
    return _UNICODE_ROOT.sub(_root, text)


def _script(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] in _SUPERSCRIPT:
        return "^{" + "".join(_SUPERSCRIPT[c] for c in text) + "}"
    return "_{" + "".join(_SUBSCRIPT[c] for c in text) + "}"


def _root(match: re.Match[str]) -> str:
    command = "\\sqrt" if match[1] == "√" else "\\sqrt[3]"
    return command + ("{" + match[2] + "}" if match[2] else "")
