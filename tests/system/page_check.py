# SPDX-License-Identifier: Apache-2.0
"""Whether a page is well-formed HTML that stands alone: no script, no other file, no link."""

import html.parser

EMPTY = {"meta", "br", "hr", "img", "link", "input"}
FORBIDDEN = {"script", "iframe", "object", "embed", "link", "img", "base", "form", "a"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.parts, self.ids = [], [], set()

    def handle_starttag(self, tag, attributes):
        assert tag not in FORBIDDEN, self.getpos()
        for name, value in attributes:
            assert not name.startswith("on") and name not in ("src", "href", "style"), (self.getpos(), name)
            if name == "id":
                assert value not in self.ids, value
                self.ids.add(value)
        if tag not in EMPTY:
            self.open.append(tag)
        self.parts.append("\n")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (self.getpos(), tag)

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.parts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


def check_page(text):
    """Returns the text that a reader sees."""
    assert text.startswith("<!doctype html>\n")
    style = text[text.index("<style>"):text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return "".join(page.parts)
