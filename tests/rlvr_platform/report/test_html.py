from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st

from rlvr_platform.report.html import Html, el, escape, join


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.data = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, attrs))

    def handle_data(self, data):
        self.data += data


plain = st.text(st.characters(exclude_categories=["Cs", "Cc"]))


@given(plain)
@example("</p><script>alert(1)</script>")
@example("&lt; &amp; <!-- ' \" -->")
def test_any_text_is_read_back_as_text_and_adds_no_element(text):
    reader = Reader(el("p", text))
    assert reader.seen == [("p", [])]
    assert reader.data == text


@given(plain)
@example('" onload="alert(1)')
def test_any_attribute_value_stays_inside_its_quotes(text):
    assert Reader(el("p", class_=text)).seen == [("p", [("class", text)])]


def test_markup_is_kept_and_text_beside_it_escaped():
    assert el("p", el("b", "x"), "<i>") == "<p><b>x</b>&lt;i&gt;</p>"
    assert escape(Html("<b>")) == "<b>"
    assert join(["<", Html("<br>")], ", ") == "&lt;, <br>"


def test_names_of_attributes_are_spelled_as_html_has_them():
    text = el("text", "1", text_anchor="end", viewBox="0 0", class_="c")
    assert text == '<text text-anchor="end" viewBox="0 0" class="c">1</text>'


def test_an_element_without_content_model_has_no_end_tag():
    assert el("meta", name="viewport") == '<meta name="viewport">'


@given(st.text(st.characters(categories=["Cc", "Cs"])))
def test_control_characters_and_lone_surrogates_become_visible_and_encodable(text):
    shown = escape(text)
    assert len(shown) == len(text)
    assert not set(shown) & {chr(c) for c in range(32) if chr(c) not in "\n\t"}
    shown.encode("utf-8")


def test_a_control_character_is_shown_by_its_picture():
    assert escape("\x1b[31m\x00\x7f") == "\u241b[31m\u2400\u2421"
