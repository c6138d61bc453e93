"""Sphinx's configuration of the site: `scripts/site` builds it, from a copy of the documents that lies as the repository does."""
import posixpath
import re

project = "bitfold"
html_title = "bitfold"
html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_copyright = False

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "reference/*.md", "gallery/*.md", "bench/results/README.md"]
nitpicky = True
highlight_language = "text"
myst_heading_anchors = 4
# C++ is shown by snippets, which need not be whole programs.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]

#: Pages that the site makes, beside those that the index names: the section that shows them, and each with its title.
MADE = {
    "Reference": {
        "reference/python": "The Python package, function by function",
        "reference/pytorch": "The PyTorch package, function by function",
        "reference/numpy": "In place of NumPy, function by function",
        "reference/cpp": "The C++ and CUDA library, function by function",
        "reference/commands": "The commands, option by option",
    },
    "Explanation": {"gallery/index": "A gallery of reports"},
}


def sections_of(index):
    """The sections of the index, with the pages that each names, in order."""
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", index, re.M | re.S):
        yield title, re.findall(r"^- \[.*?\]\(([^)#]+)\.md\)", text, re.M)


def with_contents(app, name, source):
    """Gives the index the site's tables of contents, which GitHub would show as code."""
    if name != root_doc:
        return
    for title, pages in sections_of(source[0]):
        places = [posixpath.normpath(f"/docs/{page}") for page in pages]
        places += [f"{text} </{page}>" for page, text in MADE.get(title, {}).items()]
        source[0] += "\n```{toctree}\n:hidden:\n:caption: " + title + "\n\n" + "\n".join(places) + "\n```\n"
    for title, made in MADE.items():
        lines = "".join(f"- [{text}](../{page}.md).\n" for page, text in made.items())
        source[0] = source[0].replace(f"\n## {title}\n\n", f"\n## {title}\n\n{lines}", 1)


def setup(app):
    app.connect("source-read", with_contents)
