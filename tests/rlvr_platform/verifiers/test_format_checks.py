import sys

import pytest

from rlvr_platform.verifiers.format_checks import read_check

HOLDS = [
    ({"check": "think_format"}, "<think>why</think>\nso", "so"),
    ({"check": "think_format"}, "<think>why</think>so", "<think>why</think>"),
    ({"check": "think_format"}, "<think>why</think>so", "<think></think>so"),
    ({"check": "think_format"}, "<think>why</think>so", "<think>a<think>b</think>so"),
    ({"check": "think_format"}, "<think>why</think>so", "First <think>why</think>so"),
    ({"check": "think_format", "template_prefills_think": True}, "why</think>so", "why so"),
    ({"check": "boxed_required"}, r"so \boxed{\frac{1}{2}}", r"\boxed{"),
    ({"check": "boxed_required"}, r"<think>x</think>\boxed{2}", r"<think>\boxed{2}</think>2"),
    ({"check": "answer_tag"}, "<answer>2</answer>", "<answer></answer>"),
    ({"check": "json"}, '{"a": 1}', '{"a": 1} and more'),
    ({"check": "json"}, '```json\n{"a": 1}\n```', 'Here: ```json\n{"a": 1}\n```'),
    ({"check": "english_capital"}, "ALL OF IT, 3 TIMES!", "ALL OF it"),
    ({"check": "english_capital"}, "ALL", "123"),
    ({"check": "english_lowercase"}, "all of it", "All of it"),
    ({"check": "capital_word_count", "n": 2}, "GO NOW please", "GO now"),
    ({"check": "word_count", "n": 3}, "one two three", "one - two"),
    ({"check": "word_count", "n": 3, "relation": "less than"}, "one two", "one two three"),
    ({"check": "word_count", "n": 3, "relation": ">="}, "don't split well-known", "one two"),
    ({"check": "word_count", "n": 100, "relation": "around"}, "w " * 105, "w " * 120),
    ({"check": "sentence_count", "n": 2, "relation": "exactly"}, "One. Two!", "One... only"),
    ({"check": "character_count", "n": 3}, "abc", "abcd"),
    ({"check": "n_paragraphs", "n": 2}, "one\nline\n\n\ntwo", "one\ntwo"),
    ({"check": "n_paragraphs", "n": 2}, "one\n\nmore\n***\ntwo", "one\n***\ntwo\n***\nthree"),
    (
        {"check": "nth_paragraph_first_word", "nth": 2, "first_word": "Then"},
        "First.\n\n**then** so",
        "Then\n\nfirst",
    ),
    ({"check": "n_bullets", "n": 2}, "List:\n* a\n* b", "* a\n* b\n* c"),
    ({"check": "n_bullets", "n": 2}, "- a\n  - b\n---\n**bold**", "-a\n-b"),
    ({"check": "n_highlights", "n": 2}, "*a* and **b c**", "* a\n* b"),
    ({"check": "n_placeholders", "n": 1}, "Dear [name]", "Dear []"),
    (
        {"check": "n_sections", "splitter": "Section", "n": 2},
        "Section 1\na\nSection 2\nb",
        "Section 1 and Section 2",
    ),
    ({"check": "title"}, "<<A title>>\ntext", "<title>"),
    ({"check": "postscript"}, "text\nP.S. more", "text P.S."),
    ({"check": "no_comma"}, "no comma", "a, b"),
    ({"check": "quotation"}, '"all of it"', '"part" of it'),
    ({"check": "end_phrase", "phrase": "The end."}, "so. the end.", "The end. So"),
    ({"check": "start_phrase", "phrase": "Dear"}, "Dear all", "So dear"),
    ({"check": "two_responses"}, "one\n******\ntwo", "one\n******\none"),
    ({"check": "one_of", "choices": ["yes", "no"]}, "yes", "yes, I think"),
    ({"check": "matches", "pattern": r"^\d+$"}, "42", "4 2"),
    ({"check": "repeat_prompt", "prompt_to_repeat": "Do  it."}, "Do it.\nDone.", "Done. Do it."),
    ({"check": "keywords_existence", "keywords": ["red fox", "dog"]}, "Red\nfox, dog!", "red dog"),
    ({"check": "keywords_existence", "keywords": ["cat"]}, "a cat", "a category"),
    ({"check": "forbidden_words", "keywords": ["cat"]}, "a category", "A CAT"),
    ({"check": "keyword_count", "keyword": "a", "n": 2}, "a and a", "a and b"),
    ({"check": "letter_count", "letter": "e", "n": 2}, "Eve", "ever"[1:]),
    ({"check": "all_of", "items": [{"check": "json"}, {"check": "no_comma"}]}, "[1]", "[1, 2]"),
    ({"check": "any_of", "items": [{"check": "json"}, {"check": "no_comma"}]}, "[1, 2]", "a, b"),
]


@pytest.mark.parametrize(("entry", "good", "bad"), HOLDS)
def test_each_check_tells_a_text_that_follows_from_one_that_does_not(entry, good, bad):
    check = read_check(entry)
    assert check.holds(good)
    assert not check.holds(bad)


def test_every_check_has_an_example_above():
    from rlvr_platform.verifiers.format_checks import _ANSWER, _WHOLE

    assert {entry["check"] for entry, _, _ in HOLDS} | {"language"} == {*_ANSWER, *_WHOLE}


def test_an_empty_text_meets_no_check_that_asks_for_content():
    upper_bounds = {"character_count", "no_comma"}
    for entry, _, _ in HOLDS:
        if entry["check"] not in upper_bounds and entry.get("relation") not in ("less than",):
            assert not read_check(entry).holds(""), entry


def test_the_language_is_that_of_the_text_and_an_empty_one_has_none():
    pytest.importorskip("py3langid")
    german = read_check({"check": "language", "lang": "de"})
    assert german.holds("Der Hund l\u00e4uft \u00fcber die Stra\u00dfe.")
    assert not german.holds("The dog runs across the street.")
    assert not any(
        read_check({"check": "language", "lang": lang}).holds(text)
        for lang in ("de", "en", "af")
        for text in ("", "123 ...")
    )


def test_without_its_package_the_language_check_is_refused_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    from rlvr_platform.verifiers import format_checks

    format_checks._identifier.cache_clear()
    with pytest.raises(ValueError, match=r"rlvr-platform\[language\]"):
        read_check({"check": "language", "lang": "de"})


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("json", "an object"),
        ({"name": "json"}, "an object"),
        ({"check": "jsn"}, "no format check 'jsn'"),
        ({"check": "word_count"}, "missing a required argument: 'n'"),
        ({"check": "word_count", "n": "3"}, "wanted int"),
        ({"check": "word_count", "n": True}, "wanted int"),
        ({"check": "word_count", "n": 3, "relation": "about"}, "the relation is"),
        ({"check": "word_count", "n": 3, "m": 4}, "unexpected keyword argument 'm'"),
        ({"check": "keywords_existence", "keywords": "cat"}, "wanted a list of str"),
        ({"check": "keywords_existence", "keywords": [1]}, "wanted a list of str"),
        ({"check": "all_of", "items": [{"check": "json"}, {"check": "jsn"}]}, "'jsn'"),
    ],
)
def test_a_check_that_cannot_be_read_is_refused_with_the_reason(entry, reason):
    with pytest.raises(ValueError, match=reason):
        read_check(entry)
