"""What must hold of every page of scripts/report.py, for its tests."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

from sample_rows import ScriptTest

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Holds that every element is closed in order, and keeps tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words, self.faults = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.words.append(data)


class PageTest(ScriptTest):
    """scripts/report.py on rows, and what must hold of every page it makes."""

    script = "report.py"

    def report(self, *contents):
        """(report.md, report.html), the page having passed what must hold of every page."""
        paths = [self.write(f"{i}.jsonl", content) for i, content in enumerate(contents)]
        code, out, err = self.run_script(*paths, "--out", str(self.folder / "deep" / "out"))
        self.assertEqual((code, out), (0, ""), err)
        folder = self.folder / "deep" / "out"
        html = (folder / "report.html").read_text("utf-8")
        self.check_page(html)
        return (folder / "report.md").read_text("utf-8"), html

    def check_page(self, html):
        page = Page(html)
        self.assertEqual((page.open, page.faults), ([], []))
        self.assertFalse({"script", "link", "img", "iframe", "object"} & set(page.tags))
        for name, value in page.attributes:
            self.assertFalse(name.startswith("on") or name in ("src", "href"), (name, value))
        self.assertNotIn("http", html)
        self.assertNotIn("@import", html)
        self.assertIn("prefers-color-scheme:dark", html)
        for bad in (">nan", ">inf", "None", 'nan"', 'inf"'):
            at = html.find(bad)
            self.assertEqual(at, -1, html[max(at - 200, 0) : at + 50])
        for drawing in self.drawings(html):
            self.check_drawing(drawing)

    def drawings(self, html):
        return [
            ElementTree.fromstring(text)
            for text in re.findall(r"<svg viewBox.*?</svg>", html, re.S)
        ]

    def check_drawing(self, drawing):
        self.assertEqual(drawing[0].tag, "title")
        self.assertEqual(drawing[1].tag, "desc")
        self.assertTrue(drawing.get("aria-label"))
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for one in drawing.iter("text"):
            self.assertTrue(0 <= float(one.get("x")) <= width, ElementTree.tostring(one))
            self.assertTrue(0 <= float(one.get("y")) <= height, ElementTree.tostring(one))
        for one in drawing.iter("rect"):
            self.assertLessEqual(float(one.get("x")) + float(one.get("width")), width)

    def named(self, html, name):
        return [d for d in self.drawings(html) if d[0].text == name]

    def words_of(self, drawing):
        return [one.text or "".join(one.itertext()) for one in drawing.iter("text")]
