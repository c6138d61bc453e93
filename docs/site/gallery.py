"""Writes the gallery: a page that lists the reports of bench/results, and of each the page that `bitfold report` makes.
Usage: gallery.py index FOLDER        writes FOLDER/index.md, before the site is built
       gallery.py pages FOLDER BITFOLD  writes FOLDER/NAME/report.html, beside the built page (BITFOLD is the command line's program)"""
import json
import subprocess
import sys
from pathlib import Path

REPORTS = sorted((Path(__file__).resolve().parents[2] / "bench/results").glob("report-*.json"))


def described(path):
    report = json.loads(path.read_text())
    studies = {"accuracy": "errors", "speed": "speed", "shapes": "rows and columns", "products": "products of matrices", "ranks": "sums over ranks"}
    rows = ", ".join(f"{text} ({len(report[name])} rows)" for name, text in studies.items() if report.get(name))
    text = f"## <a href=\"{path.stem}/report.html\">{path.stem}</a>\n\n"
    machine = ", ".join([*report["machine"]["gpus"], report["machine"]["cpu"]])
    text += f"{machine}, {report['date'][:10]}, commit {report['bitfold']['commit']}, `{report['command']}`: {rows}."
    if report.get("extract"):
        text += f" It is an extract: {report['extract']}."
    return text + f" [Its numbers](../bench/results/{path.name}).\n\n"


def main():
    what, folder, *program = sys.argv[1:]
    if what == "index":
        Path(folder).mkdir(parents=True, exist_ok=True)
        text = "# A gallery of reports\n\n`bitfold report` makes a page of its own, which needs no server. These are of the committed [files of results](../bench/results/README.md). "
        text += "[measures.md](../docs/measures.md) says what is measured.\n\n"
        (Path(folder) / "index.md").write_text(text + "".join(map(described, REPORTS)))
        return
    for path in REPORTS:
        subprocess.run([program[0], "report", "--from", path, "--out", Path(folder) / path.stem], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
