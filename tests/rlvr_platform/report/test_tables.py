from rlvr_platform.report.tables import bar, facts, folded, table, text_block


def test_cells_are_escaped_and_numbers_align(parse):
    page = parse(table(["name", "n"], [["<b>", 1]], numeric=1))
    assert "b" not in page.tags
    assert [a for a in page.attributes if a[1] == "class" and a[2] == "number"] == [
        ("th", "class", "number"),
        ("td", "class", "number"),
    ]


def test_a_long_text_is_cut_with_a_word_on_the_rest(parse):
    assert parse(text_block("x" * 10, 10)).text == "x" * 10
    assert parse(text_block("x" * 1500, 10)).text == "x" * 10 + "\n… 1,490 more characters"


def test_a_bar_never_leaves_its_frame():
    assert 'style="width:25.0%"' in bar(0.25)
    assert 'style="width:100.0%"' in bar(1.7)
    assert 'style="width:0.0%"' in bar(-1)


def test_facts_and_folded_content_are_well_formed(parse):
    assert parse(folded("more", facts([("a", 1), ("b", "<i>")]))).text == "morea1b<i>"
