"""Makes the page of `tsq report` from its data, as the command does: index.html with styles, scripts, licences and data put in.

    tests/report/make_page.py DATA.json OUT.html

Each file that src/report/page/files.txt lists goes, in that order, to the place of its kind: .css to the styles, .js to the scripts, .txt
to the licences.
"""

import argparse
import html
import json
import os
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "src" / "report" / "page"


def page_files(suffix: str) -> list[str]:
    """Returns the texts of the listed files with this suffix, in the order of the list."""
    names = (PAGE / "files.txt").read_text(encoding="utf-8").split()
    return [(PAGE / name).read_text(encoding="utf-8") for name in names if name.endswith(suffix)]


def data_script(data: object) -> str:
    """Returns the data as a script element. Without a "<", no text of the data can end the element or open a comment in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="tsq-data">{text}</script>'


def licences() -> str:
    texts = "\n\n".join(page_files(".txt"))
    return f"<details><summary>Licences of the libraries in this page</summary><pre>{html.escape(texts)}</pre></details>"


def make_page(data: object) -> str:
    """Returns the whole page. All places are filled in one pass, so that data that names a place is left as it is."""
    parts = {
        "styles": f"<style>\n{''.join(page_files('.css'))}</style>",
        "scripts": "\n".join(f"<script>\n{text}</script>" for text in page_files(".js")),
        "licences": licences(),
        "data": data_script(data),
    }
    template = (PAGE / "index.html").read_text(encoding="utf-8")
    return re.sub(r"<!--tsq:(\w+)-->", lambda place: parts[place[1]], template)


def write_whole(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the page of `tsq report` from its data.")
    parser.add_argument("data", type=Path, metavar="DATA.json", help="what the page is to show")
    parser.add_argument("output", type=Path, metavar="OUT.html", help="the page")
    arguments = parser.parse_args()
    try:
        write_whole(arguments.output, make_page(json.loads(arguments.data.read_text(encoding="utf-8"))))
    except (OSError, ValueError) as error:
        print(f"make_page: {arguments.data} to {arguments.output}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
