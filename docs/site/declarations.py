"""What the public headers declare: Doxygen's XML has the names, kinds, members and lines; signatures and comments are the headers' own text."""
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

#: Namespaces of which nothing is public, unless it is asked for by name.
HIDDEN = ("bitfold::detail", "bitfold::exact", "bitfold::method", "bitfold::fold", "bitfold::cuda::own", "bitfold::testing::detail", "bitfold::ops")
OLDEST = (1, 9, 4)  # that knows concepts

DOXYFILE = """
QUIET = YES
WARNINGS = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
MARKDOWN_SUPPORT = NO
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
SORT_MEMBER_DOCS = NO
EXTENSION_MAPPING = cuh=C++
FILE_PATTERNS = *.hpp *.cuh
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = NO
SEARCH_INCLUDES = NO
PREDEFINED = BITFOLD_HD= BITFOLD_INLINE=inline BITFOLD_HD_BEGIN= BITFOLD_HD_END= __cpp_concepts=202002L __cplusplus=202002L __CUDACC__=1
"""


@dataclass
class Declaration:
    name: str  # without bitfold::
    kind: str
    header: str
    line: int
    signature: str
    comment: list  # its lines; empty where there is none
    shares: bool = False  # the comment of the one before
    parameters: list = field(default_factory=list)
    fields: list = field(default_factory=list)  # of a struct or an enumeration, those of one line together
    members: list = field(default_factory=list)
    member_entries: list = field(default_factory=list)
    follows: bool = False  # has no comment, and stands right below another declaration
    has_body: bool = False
    member: bool = False


@dataclass
class Field:
    name: str
    type: str = ""
    value: str = ""  # by default
    line: int = 0
    comment_text: str = ""


def doxygen(headers, names):
    """The compounds of its XML."""
    program = shutil.which("doxygen")
    if not program:
        print("reference: there is no doxygen, which reads the headers", file=sys.stderr)
        sys.exit(2)
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[0]
    if tuple(int(n) for n in re.findall(r"\d+", version)[:3]) < OLDEST:
        print(f"reference: doxygen {version} does not know C++20's concepts: {'.'.join(map(str, OLDEST))} or newer is needed", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        paths = " ".join(f'"{(headers / n).resolve()}"' for n in names)
        settings = f'{DOXYFILE}\nOUTPUT_DIRECTORY = "{folder}"\nINPUT = {paths}\nSTRIP_FROM_PATH = "{headers.resolve()}"\n'
        subprocess.run([program, "-"], input=settings, text=True, check=True)
        for path in sorted((Path(folder) / "xml").glob("*.xml")):
            yield from ElementTree.parse(path).getroot().findall("compounddef")


class Header:
    def __init__(self, path):
        self.lines = path.read_text().splitlines()
        self.taken = set()

    def first_line(self, line, name):
        """The first line, from 0, of the declaration of which Doxygen names one, from 1."""
        last = name.rsplit("::", 1)[-1]
        word = re.escape(last) if last.startswith("operator") else rf"(?<![\w.]){re.escape(last)}\b(?!::)"
        i = line - 1  # or somewhat above, where macros have lines of their own
        while i < len(self.lines) - 1 and (not re.search(word, self.lines[i].split("//")[0]) or (i, last) in self.taken):
            i += 1
        self.taken.add((i, last))
        while i > 0:
            before = self.lines[i - 1].strip()
            part = before.startswith(("template", "requires"))
            if not before or before.startswith(("//", "#")) or before.endswith("\\") or (not part and re.search(r"([;{}:]|^friend)(\s*//.*)?$", before)):
                break
            i -= 1
        return i

    def comment_above(self, first):
        i = first - 1
        while i > 0 and self.lines[i].startswith("#"):  # what only one compiler reads
            i -= 1
        found = []
        while i >= 0 and re.match(r"\s*///(?!<)", self.lines[i]):
            found.insert(0, re.sub(r"^\s*/// ?", "", self.lines[i]))
            i -= 1
        return found

    def comment_behind(self, first):
        for i in range(first, len(self.lines)):
            if m := re.search(r"///< ?(.*)$", self.lines[i]):
                found = [m[1]]
                while i + 1 < len(self.lines) and (m := re.match(r"\s*///< ?(.*)$", self.lines[i + 1])):
                    found.append(m[1])
                    i += 1
                return found
            if re.search(r"[;{}]\s*(//.*)?$", self.lines[i]):
                return []
        return []

    def follows_another(self, first):
        """Whether a declaration ends on the line before."""
        return first > 0 and re.search(r"[;}](\s*//.*)?$", self.lines[first - 1]) is not None

    def signature(self, first, kind):
        """From the first line to the body, or to the end."""
        text, depth, i = "", 0, first
        source = "\n".join(re.sub(r"\s*//.*$", "", line) for line in self.lines[first : first + 60] if not line.startswith("#"))
        for i, c in enumerate(source):
            rest = source[i:]
            if kind in ("concept", "variable"):
                depth += (c in "({") - (c in ")}")
                if c == ";" and depth == 0:
                    break
                continue
            depth += (c in "(") - (c in ")")
            if depth:
                continue
            if c == ";" or (c == ":" and re.match(r": (?!:)\w+[({]", rest) and kind == "function" and source[i - 1] not in ":"):
                break
            if c == "{" and not re.search(r"requires requires\([^()]*\) $", source[:i]) and not re.search(r"= $", source[:i]):
                if not re.search(r"requires requires\([^()]*\) \{[^{}]*$", source[:i]):
                    break
        text = source[:i].rstrip()
        if kind == "variable" and re.search(r"=\s*\[", text):
            text = re.sub(r"\s*=\s*\[.*", "", text, flags=re.S)
        text = re.sub(r"\b(?:BITFOLD_HD|inline|explicit) ", lambda m: m[0] if "explicit" in m[0] else "", text)
        lines = text.splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        return "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines) + ";"

    def has_body(self, first):
        depth = 0
        for c in "\n".join(re.sub(r"\s*//.*$", "", line) for line in self.lines[first:]):
            depth += (c in "(") - (c in ")")
            if depth == 0 and c in ";{":
                return c == "{"
        return False


def introduction(path):
    """The comment that the header begins with."""
    found = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        found.append(re.sub(r"^// ?", "", line))
    return found


def text_in(element, tag):
    part = element.find(tag)
    return " ".join("".join(part.itertext()).split()) if part is not None else ""


def is_kept(member):
    """Not what is private, deleted, defaulted, a destructor, an assignment, or declared by a base class."""
    name, arguments = member.findtext("name"), member.findtext("argsstring") or ""
    if member.get("prot") != "public" or name.startswith("~") or name == "operator=" or "@" in name:
        return False
    return not re.search(r"=\s*(delete|default)$|\boverride\b|\)\s*->", arguments)


def read(headers, names, only, without):
    """The declarations of each header, in order; those of classes have their members."""
    texts = {n: Header(headers / n) for n in names}
    found = {n: [] for n in names}
    classes = {}
    compounds = [c for c in doxygen(headers, names) if c.get("kind") in ("namespace", "class", "struct", "concept")]

    def is_public(full, header, compound):
        name = full.removeprefix("bitfold::")
        if header in only:
            return any(name == n or name.startswith(n + "::") for n in only[header])
        if any(name == n or name.startswith(n + "::") for n in without.get(header, ())):
            return False
        return not any((compound + "::").startswith(h + "::") for h in HIDDEN) and "@" not in compound and compound.startswith("bitfold")

    def declared(full, kind, location, parameters=(), trailing=True):
        header = location.get("file")
        text = texts[header]
        first = text.first_line(int(location.get("line")), full)
        above = text.comment_above(first)
        comment = above or (text.comment_behind(first) if trailing else [])
        return Declaration(full.removeprefix("bitfold::"), kind, header, first + 1, text.signature(first, kind), comment, parameters=list(parameters),
                           follows=not comment and text.follows_another(first), has_body=text.has_body(first))  # fmt: skip

    for c in compounds:
        kind, name = c.get("kind"), c.findtext("compoundname")
        location = c.find("location")
        if kind == "namespace" or c.get("prot", "public") != "public" or location is None or location.get("file") not in texts:
            continue
        if "<" in name or not is_public(name, location.get("file"), name):
            continue
        classes[name] = declared(name, kind, location, trailing=False)
    for c in compounds:  # namespaces that have a comment
        compound, location = c.findtext("compoundname"), c.find("location")
        if c.get("kind") == "namespace" and location is not None and location.get("file") in texts and compound.startswith("bitfold::"):
            text, last = texts[location.get("file")], compound.rsplit("::", 1)[-1]
            for i, line in enumerate(text.lines):
                if line == f"namespace {last} {{" and (comment := text.comment_above(i)):
                    name = compound.removeprefix("bitfold::")
                    found[location.get("file")].append(Declaration(name, "namespace", location.get("file"), i + 1, f"namespace {name}", comment))
    for c in compounds:
        compound = c.findtext("compoundname")
        owner = classes.get(compound)
        if c.get("kind") != "namespace" and owner is None:
            continue
        for m in c.findall("sectiondef/memberdef"):
            location = m.find("location")
            header = location.get("file")
            full = f"{compound}::{m.findtext('name')}"
            if header not in texts or not is_kept(m) or full.removeprefix("bitfold::") in without.get(header, ()):
                continue
            if owner is None and not is_public(full, header, compound):
                continue
            kind = m.get("kind")
            if kind == "variable" and owner is not None and m.get("static") != "yes":
                said = " ".join(filter(None, (text_in(m, "briefdescription"), text_in(m, "detaileddescription"))))
                value = text_in(m, "initializer").removeprefix("=").strip()
                what = text_in(m, "type").replace("< ", "<").replace(" >", ">").replace(" *", "*").replace(" &", "&")
                f = Field(m.findtext("name"), what, value, int(location.get("line")), said)
                if owner.fields and owner.fields[-1][0].line == f.line:
                    owner.fields[-1].append(f)
                else:
                    owner.fields.append([f])
                continue
            parameters = [p.findtext("declname") for p in m.findall("param") if p.findtext("declname")]
            d = declared(full, kind, location, parameters)
            if kind == "enum":
                for v in m.findall("enumvalue"):
                    said = " ".join(filter(None, (text_in(v, "briefdescription"), text_in(v, "detaileddescription"))))
                    d.fields.append([Field(v.findtext("name"), comment_text=said)])
            d.member = owner is not None
            (found[header] if owner is None else owner.members).append(d)
    for name, d in classes.items():
        outer = classes.get(name.rsplit("::", 1)[0])
        (found[d.header] if outer is None else outer.members).append(d)
    for ds in [*found.values(), *(d.members for d in classes.values())]:
        ds.sort(key=lambda d: d.line)
        for before, d in zip(ds, ds[1:]):
            # What follows directly shares a comment: overloads, and outside of classes functions that are declared alone.
            if d.line == before.line:
                d.shares = True
                continue
            alone = d.kind == "function" and not d.member and not d.has_body and not before.has_body
            range_of = {name.rsplit("::", 1)[-1] for name in (before.name, d.name)} == {"begin", "end"}
            d.shares = d.follows and bool(before.comment or before.shares) and (before.name == d.name or range_of or alone)
    return found


def without_comment(ds):
    """Functions and types of these, and of their members."""
    for d in ds:
        if not d.comment and not d.shares and not (d.member and d.kind in ("typedef", "variable")):
            yield d
        yield from without_comment(d.members)
