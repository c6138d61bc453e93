"""What the public headers declare: Doxygen's XML has the names, kinds, members and lines. Signatures and comments are the headers' own
text."""
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

#: Namespaces of which nothing is public, unless it is asked for by name.
HIDDEN = ("detail", "exact", "method", "fold", "ops", "cuda::own", "testing::detail")
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
        oldest = ".".join(map(str, OLDEST))
        print(f"reference: doxygen {version} does not know C++20's concepts: {oldest} or newer is needed", file=sys.stderr)
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
            ends = not part and re.search(r"([;{}:]|^friend)(\s*//.*)?$", before)
            if not before or before.startswith(("//", "#")) or before.endswith("\\") or ends:
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

    def head(self, first, kind):
        """What stands from the first line to the body, or to the end, and whether there is a body."""
        source = "\n".join(re.sub(r"\s*//.*$", "", line) for line in self.lines[first : first + 60] if not line.startswith("#"))
        depth = 0
        for i, c in enumerate(source):
            inside = depth or kind in ("concept", "variable") or re.search(r"requires requires\([^()]*\) $", source[:i])
            initializers = c == ":" and kind == "function" and source[i - 1].isspace() and source[i + 1] == " "
            if c == "(" or (c == "{" and inside):
                depth += 1
            elif c in ")}" and depth:
                depth -= 1
            elif depth == 0 and (c in ";{" or initializers):
                return source[:i].rstrip(), c != ";"
        return source, False

    def signature(self, first, kind):
        text = self.head(first, kind)[0]
        if kind == "variable":
            text = re.sub(r"\s*=\s*\[.*", "", text, flags=re.S)  # a lambda, which computes it
        return textwrap.dedent(re.sub(r"\b(?:BITFOLD_HD|inline) ", "", text)) + ";"


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


def comment_of(element):
    return " ".join(filter(None, (text_in(element, "briefdescription"), text_in(element, "detaileddescription"))))


def is_kept(member):
    """Not what is private, deleted, defaulted, a destructor, an assignment, a guide of deduction, or declared by a base class."""
    name, arguments = member.findtext("name"), member.findtext("argsstring") or ""
    if member.get("prot") != "public" or name.startswith("~") or name == "operator=" or "@" in name:
        return False
    if "->" in arguments and not text_in(member, "type"):
        return False
    return not re.search(r"=\s*(delete|default)$|\boverride\b", arguments)


def field_of(member):
    kind = text_in(member, "type").replace("< ", "<").replace(" >", ">").replace(" *", "*").replace(" &", "&")
    value = text_in(member, "initializer").removeprefix("=").strip()
    return Field(member.findtext("name"), kind, value, int(member.find("location").get("line")), comment_of(member))


class Reader:
    def __init__(self, headers, names, only, without):
        self.only, self.without = only, without
        self.texts = {n: Header(headers / n) for n in names}
        self.found = {n: [] for n in names}
        self.classes = {}
        compounds = list(doxygen(headers, names))
        for c in compounds:
            if c.get("kind") in ("class", "struct", "concept"):
                self.read_class(c)
        for c in compounds:
            owner = self.classes.get(c.findtext("compoundname"))
            if c.get("kind") == "namespace":
                self.read_namespace(c)
            if c.get("kind") == "namespace" or owner:
                for m in c.findall("sectiondef/memberdef"):
                    self.read_member(m, c.findtext("compoundname"), owner)
        for name, d in self.classes.items():
            outer = self.classes.get(name.rpartition("::")[0])
            (outer.members if outer else self.found[d.header]).append(d)
        for ds in [*self.found.values(), *(d.members for d in self.classes.values())]:
            ds.sort(key=lambda d: d.line)
            share_comments(ds)

    def is_public(self, full, header, compound):
        name = full.removeprefix("bitfold::")
        if header in self.only:
            return any(name == n or name.startswith(n + "::") for n in self.only[header])
        if "@" in compound or not full.startswith("bitfold::"):
            return False
        hidden = any(f"{compound}::".startswith(f"bitfold::{n}::") for n in HIDDEN)
        return not hidden and name not in self.without.get(header, ())

    def declared(self, full, kind, location, behind=True):
        text = self.texts[location.get("file")]
        first = text.first_line(int(location.get("line")), full)
        comment = text.comment_above(first) or (text.comment_behind(first) if behind else [])
        d = Declaration(full.removeprefix("bitfold::"), kind, location.get("file"), first + 1, text.signature(first, kind), comment)
        d.follows = not comment and text.follows_another(first)
        d.has_body = text.head(first, kind)[1]
        return d

    def read_class(self, c):
        name, location = c.findtext("compoundname"), c.find("location")
        header = location.get("file")
        if c.get("prot", "public") == "public" and header in self.texts and "<" not in name and self.is_public(name, header, name):
            self.classes[name] = self.declared(name, c.get("kind"), location, behind=False)

    def read_namespace(self, c):
        """One that has a comment."""
        name, header = c.findtext("compoundname").removeprefix("bitfold::"), c.find("location").get("file")
        if header not in self.texts:
            return
        for i, line in enumerate(self.texts[header].lines):
            if line == f"namespace {name} {{" and (comment := self.texts[header].comment_above(i)):
                self.found[header].append(Declaration(name, "namespace", header, i + 1, f"namespace {name}", comment))

    def read_member(self, m, compound, owner):
        full, header, kind = f"{compound}::{m.findtext('name')}", m.find("location").get("file"), m.get("kind")
        if header not in self.texts or not is_kept(m) or not (owner or self.is_public(full, header, compound)):
            return
        if full.removeprefix("bitfold::") in self.without.get(header, ()):
            return
        if owner and kind == "variable" and m.get("static") != "yes":
            f = field_of(m)
            if owner.fields and owner.fields[-1][0].line == f.line:
                owner.fields[-1].append(f)
            else:
                owner.fields.append([f])
            return
        d = self.declared(full, kind, m.find("location"))
        d.member = bool(owner)
        d.parameters = [p.findtext("declname") for p in m.findall("param") if p.findtext("declname")]
        types = [text_in(p, "type") for p in m.findall("templateparamlist/param")]
        d.parameters += [t.split()[-1] for t in types if t.startswith("class ")]
        d.fields = [[Field(v.findtext("name"), comment_text=comment_of(v))] for v in m.findall("enumvalue")]
        (owner.members if owner else self.found[header]).append(d)


def share_comments(ds):
    """What follows directly shares a comment: overloads, and outside of classes functions that are declared alone."""
    for before, d in zip(ds, ds[1:]):
        alone = d.kind == "function" and not d.member and not d.has_body and not before.has_body
        range_of = {name.rsplit("::", 1)[-1] for name in (before.name, d.name)} == {"begin", "end"}
        follows = d.follows and bool(before.comment or before.shares) and (before.name == d.name or range_of or alone)
        d.shares = follows or d.line == before.line


def read(headers, names, only, without):
    """The declarations of each header, in order; those of classes have their members."""
    return Reader(headers, names, only, without).found


def without_comment(ds):
    """Functions and types of these, and of their members."""
    for d in ds:
        if not d.comment and not d.shares and not (d.member and d.kind in ("typedef", "variable")):
            yield d
        yield from without_comment(d.members)
