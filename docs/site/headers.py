"""Writes the pages of the reference that are made from the comments of the C++ and CUDA headers: Doxygen says what is declared where,
and the comments are taken from the headers as they stand.
Usage: headers.py FOLDER [ROOT]   (ROOT, the repository, is the working directory by default)
Exit status: 1 where something public has no comment, or a header is neither on a page nor said to be internal; 2 without Doxygen."""
import re
import sys
import textwrap
from pathlib import Path

import declarations
from pages import INTERNAL, ONLY, PAGES, WITHOUT

#: What begins an item within a comment: at the beginning of a line or of a sentence.
LABEL = r"(?:^|(?<=[.)] ))(?P<label>Errors|Memory|Returns|Cost)(?P<besides>(?=[:,]|\s\()(?:\([^)]*\)|[^:.(])*):\s"
SENTENCE = re.compile(r"(.+?(?<![.\s])[.!?:])(?=\s|$)", re.S)


def slug(text):
    return "api-" + re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


class Links:
    """Turns words into code, and names of the reference into links to their entries."""

    WORD = re.compile(
        r"`[^`]+`"  # code already
        r"|\[[^\]]+\]\([^)]+\)|(?<![\w/`])docs/([\w-]+)\.md"
        r"|(?<![\w.])(?:bitfold/)?(?:\w+/)?\w+\.(?:hpp|cuh)\b"
        r"|(?<![\w:`/.-])(?:\w+(?:::\w+)+|\w+\.\w+(?=\()|[A-Za-z]\w*_\w*\w|[A-Za-z]\w*(?=\[|\())"
        r"(?:\((?:[^()]|\([^()]*\))*\)|\{[^{}]*\})?(?:\[[^\]]*\])?"
    )

    def __init__(self, entries, headers):
        self.page = self.scope = ""  # where the words stand
        self.places = {h: [("", slug(h))] for h in headers}
        short, taken = {}, set()
        for e in entries:
            e.anchor = next(a for a in (slug(e.title), *(slug(e.title) + f"-{k}" for k in range(2, 99))) if a not in taken)
            taken.add(e.anchor)
            for name in e.names:
                self.places.setdefault(name, []).append((e.page, e.anchor))
                if not e.scope:
                    short.setdefault(name.rsplit("::", 1)[-1], set()).add((e.page, e.anchor))
        for name, found in short.items():
            if "_" in name and len(found) == 1:  # of a name that only one entry has
                self.places.setdefault(name, list(found))

    def place(self, name):
        """The anchor of its entry: on this page, where it has several."""
        found = self.places.get(f"{self.scope}::{name}") or self.places.get(name, [])
        return next((a for page, a in found if page == self.page), found[0][1] if found else None)

    def code(self, text, here):
        name = re.sub(r"[({\[].*$", "", text, flags=re.S).removeprefix("bitfold::")
        place = self.place(name) if re.search(r"[_.]|::", name) or text.endswith("()") else None
        if not place and "::" in name:  # a value of an enumeration
            place = self.place(name.rpartition("::")[0])
        return f"[`{text}`](#{place})" if place and place != here else f"`{text}`"

    def markdown(self, text, here):
        out, end = [], 0
        for m in self.WORD.finditer(text):
            out.append(escaped(text[end : m.start()]))
            word = m[0]
            if word.startswith("["):
                out.append(word)
            elif m[1]:
                out.append(f"[{m[1]}.md](../docs/{m[1]}.md)")
            elif re.search(r"\.(hpp|cuh)$", word):
                out.append(self.code(word.removeprefix("bitfold/"), here))
            elif word.startswith("`"):
                out.append(self.code(word.strip("`"), here) if re.fullmatch(r"`[\w:]+(\(\))?`", word) else word)
            else:
                out.append(self.code(word, here))
            end = m.end()
        return "".join(out) + escaped(text[end:])


def escaped(text):
    return re.sub(r"([*<>\[\]_])", r"\\\1", text)


def blocks_of(comment):
    """Paragraphs, and what is indented further, which is code or a table."""
    blocks = []
    for line in comment:
        kind = "code" if line.startswith("  ") else "text" if line.strip() else None
        if kind is None and blocks and blocks[-1][0] == "code":
            kind = "code"  # an empty line within it
        if not blocks or blocks[-1][0] != kind:
            blocks.append((kind, []))
        blocks[-1][1].append(line)
    return [(kind, "\n".join(lines).rstrip().splitlines()) for kind, lines in blocks if kind]


def described(comment, parameters, links, here):
    """A comment as Markdown. `name: text` at the beginning of a line is an item, where a parameter is called so, and so is a label."""
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    begin = re.compile(rf"^(?P<names>(?:{names})(?:, (?:{names}))*): |{LABEL}", re.M)
    out = []
    for kind, lines in blocks_of(comment):
        text = "\n".join(lines)
        if kind == "code":
            language = "cpp" if re.search(r"[)}]\s*;|\{", text) else "text"
            out.append(f"```{language}\n{textwrap.dedent(text)}\n```")
            continue
        marks = list(begin.finditer(text))
        ends = [m.start() for m in marks[1:]] + [len(text)]
        if first := text[: marks[0].start() if marks else None].strip():
            out.append(links.markdown(first, here))
        items = []
        for m, end in zip(marks, ends):
            if m["names"]:
                label = ", ".join(f"`{n}`" for n in m["names"].split(", "))
            else:
                label = f"**{m['label']}**{links.markdown(m['besides'], here)}"
            items.append(f"- {label}: {links.markdown(text[m.end() : end].strip(), here)}".replace("\n", "\n  "))
        if items:
            out.append("\n".join(items))
    return "\n\n".join(out)


class Entry:
    """Declarations under one heading: those that share a name, or a comment, in one header."""

    def __init__(self, scope, page):
        self.scope, self.page = scope, page  # scope: of a member its class
        self.anchor = ""
        self.blocks = []  # declarations that share a comment

    def with_members(self):
        yield self
        for d in self.all:
            for member in d.member_entries:
                yield from member.with_members()

    @property
    def all(self):
        return [d for block in self.blocks for d in block]

    @property
    def names(self):
        return list(dict.fromkeys(d.name for d in self.all))

    @property
    def title(self):
        return ", ".join(self.names)

    def comment(self):
        """That of the first declarations that have one."""
        return next((block[0].comment for block in self.blocks if block[0].comment), [])


def entries_of(found, scope, page):
    """Of the declarations of a header, in order."""
    blocks = []
    for d in found:
        if blocks and d.shares:
            blocks[-1].append(d)
        else:
            blocks.append([d])
    entries = []
    for block in blocks:
        names = {d.name for d in block}
        known = [e for e in entries if names & set(e.names)]
        if not known:
            entries.append(Entry(scope, page))
            known = entries[-1:]
        for other in known[1:]:  # one comment has joined them
            known[0].blocks += other.blocks
            entries.remove(other)
        known[0].blocks.append(block)
        known[0].blocks.sort(key=lambda b: b[0].line)
    for d in found:
        d.member_entries = entries_of(d.members, d.name, page)
    return entries


def uses(line, d):
    """Whether a line of a program calls or names it."""
    scope, _, last = d.name.rpartition("::")
    name = re.escape(f"{scope}::{last}" if scope in ("cpu", "cuda", "order") else last)
    behind = r"(?=[(<])" if d.kind == "function" else r"(?=[<({;,)]| [a-z*&]\w*[ ;({\[=,)]| \w+\.|::)"
    code = re.sub(r'"[^"]*"|//.*', "", line)
    for m in re.finditer(rf"(?<![\w.>-]){name}\b{behind}", code):
        before = code[: m.start()].removesuffix("bitfold::").rstrip()
        if d.kind != "function" or not re.search(r"[\w>&*]$", before) or re.search(r"\b(return|else)$", before):
            return True
    return False


def used_in(entry, programs):
    """The first program that tests run and that uses this entry: of those that include its header themselves, or else
    by another header."""
    header = entry.all[0].header
    for directly in (True, False):
        for program in programs:
            if header in (program.included if directly else program.reached):
                for number, line in enumerate(program.lines, 1):
                    if "#include" not in line and any(uses(line, d) for d in entry.all):
                        return program.path, number
    return None


class Program:
    INCLUDE = re.compile(r"#include <bitfold/([\w/.]+)>")

    def __init__(self, path, root):
        self.path, text = str(path.relative_to(root)), path.read_text()
        self.lines = text.splitlines()
        self.included = set(self.INCLUDE.findall(text))
        self.reached, waiting = set(), list(self.included)
        while waiting:
            header = waiting.pop()
            if header not in self.reached:
                self.reached.add(header)
                waiting += self.INCLUDE.findall((root / "include/bitfold" / header).read_text())


def fields(d, links, here):
    out = []
    for group in d.fields:
        of_all = len({f.value for f in group}) == 1  # one value by default
        names = ", ".join(f"`{f.name}`" if of_all or not f.value else f"`{f.name} = {f.value}`" for f in group)
        said = " ".join(f.comment_text for f in group if f.comment_text)
        kind = group[0].type + (f" = {group[0].value}" if of_all and group[0].value else "")
        out.append(f"- {names}" + (f" (`{kind}`)" if kind else "") + (f": {links.markdown(said, here)}" if said else ""))
    return "\n".join(out)


def text_of(entry, links, programs, level):
    links.scope = entry.names[0].rpartition("::")[0]
    out = [f"({entry.anchor})=\n{'#' * level} " + ", ".join(f"`{n}`" for n in entry.names)]
    for block in entry.blocks:
        out.append("```cpp\n" + "\n".join(dict.fromkeys(d.signature for d in block)) + "\n```")
        if block[0].comment:
            out.append(described(block[0].comment, [p for d in block for p in d.parameters], links, entry.anchor))
        out += [fields(d, links, entry.anchor) for d in block if d.fields]
    if not entry.scope:
        first = entry.all[0]
        where = f"Declared in [{first.header}](../include/bitfold/{first.header}), line {first.line}"
        if used := used_in(entry, programs):
            where += f"; used in [{used[0]}](../{used[0]}), line {used[1]}"
        out.append(f"{where}.")
    return "\n\n".join(out) + "\n\n" + "".join(text_of(m, links, programs, min(level + 1, 4)) for d in entry.all for m in d.member_entries)


def overview(pages, links):
    """The page that names all entries, each with its first sentence."""
    out = ["# The C++ and CUDA library, function by function\n"]
    out.append("These pages are made from the comments of the headers in `include/bitfold`. Names are in namespace `bitfold`.")
    out.append("What is wrong is an exception [`error`](#api-error), in one line that names the argument. The bits of a result")
    out.append("depend neither on threads, vectors, launch shapes and layouts, nor on whether a CPU or a GPU computes it, unless an")
    out.append("entry says otherwise ([order.md](../docs/order.md)).\n\n```{toctree}\n:hidden:\n")
    out += [page.file for page in pages] + ["```\n"]
    for page, headers in pages.items():
        out.append(f"## [{page.title}]({page.file}.md)\n")
        for e in (e for entries in headers.values() for e in entries):
            links.scope = e.names[0].rpartition("::")[0]
            comment = re.sub(r" \([^()]*\)(?=[\s.,:])", "", " ".join(" ".join(e.comment()).split()))
            sentence = SENTENCE.match(comment.rstrip(".") + ".")
            said = f": {links.markdown(sentence[1].rstrip(':.'), e.anchor)}." if sentence else ""
            out.append("- " + ", ".join(f"[`{n}`](#{e.anchor})" for n in e.names) + said)
        out.append("")
    return "\n".join(out)


def page_text(page, headers, links, programs, root):
    links.page = page.file
    text = f"# {page.title}\n\n{page.text}\n\n"
    for header, entries in headers.items():
        links.scope = ""
        text += f"({slug(header)})=\n## `bitfold/{header}`\n\n"
        if not ONLY.get(header):
            text += described(declarations.introduction(root / "include/bitfold" / header), [], links, "") + "\n\n"
        text += "".join(text_of(e, links, programs, 3) for e in entries)
    if page.example:
        text += f"## A program\n\n[{page.example}](../{page.example}):\n\n```cpp\n{(root / page.example).read_text()}```\n"
    return text


def main():
    folder, root = Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    headers = root / "include/bitfold"
    listed = {h for page in PAGES for h in page.headers}
    problems = []
    for path in sorted([*headers.glob("*.hpp"), headers / "cuda/reduce.cuh"]):
        name = str(path.relative_to(headers))
        if (name in listed) == (name in INTERNAL):
            is_what = "is both on a page and" if name in listed else "is neither on a page nor"
            problems.append(f"include/bitfold/{name}: {is_what} internal (docs/site/pages.py)")
    found = declarations.read(headers, sorted(listed), ONLY, WITHOUT)
    for ds in found.values():
        problems += [f"include/bitfold/{d.header}:{d.line}: {d.name} has no comment" for d in declarations.without_comment(ds)]
    if problems:
        sys.exit("reference: " + "\nreference: ".join(problems))

    pages = {page: {h: entries_of(found[h], "", page.file) for h in page.headers} for page in PAGES}
    entries = [e for headers_of in pages.values() for es in headers_of.values() for e in es]
    links = Links([each for e in entries for each in e.with_members()], listed)
    programs = []
    for pattern in ("examples/*.cpp", "examples/*.cu", "tests/*_test.cpp", "tests/*_test.cu", "tests/*.hpp", "src/cli/*.cpp",
                    "python/*.cpp"):  # fmt: skip
        programs += [Program(path, root) for path in sorted(root.glob(pattern))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpp.md").write_text(overview(pages, links))
    for page, headers_of in pages.items():
        (folder / f"{page.file}.md").write_text(page_text(page, headers_of, links, programs, root))


if __name__ == "__main__":
    main()
