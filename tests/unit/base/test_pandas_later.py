"""Commands without Spark import no pandas, and pyarrow finds it once Spark needs it."""

import subprocess
import sys

CODE = """
import sys
from xscl.base.pandas_later import let_pandas_in, put_pandas_off

put_pandas_off()
import pyarrow as pa
import pyarrow.dataset

assert pa.array([1, 2]).to_numpy().tolist() == [1, 2]
assert "pandas" not in sys.modules
let_pandas_in()
import pandas as pd

# Only who knows pandas takes a missing number for NULL.
assert pa.array(pd.Series([1.0, None])).null_count == 1
assert pa.Table.from_pandas(pd.DataFrame({"a": [1.0, None]})).column("a").null_count == 1
"""


def test_pandas_is_put_off_and_let_in():
    subprocess.run([sys.executable, "-c", CODE], check=True)


def test_an_evaluation_needs_no_pandas(tmp_path):
    (tmp_path / "a.xml").write_text("<a><b>1</b></a>")
    code = (
        "import sys, atexit; atexit.register(lambda: print('pandas' in sys.modules, file=sys.stderr));"
        "from xscl.cli.app import start; start()"
    )
    arguments = ["eval", "-q", "a//a[./b->x]", "--channel", "a", str(tmp_path / "a.xml")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"x": "1"' in done.stdout
    assert done.stderr.splitlines()[-1] == "False"


def test_commands_read_times_in_other_forms(tmp_path):
    """The command line of a process of its own: this one has had pandas for long."""
    (tmp_path / "us.csv").write_text("at,v\n01/02/1970 00:00:00,1\n")
    (tmp_path / "mixed.csv").write_text('at,v\n"Fri, 02 Jan 1970 00:00:00 GMT",1\n')
    for arguments in (["us.csv", "--ts-format", "%m/%d/%Y %H:%M:%S"], ["mixed.csv"]):
        command = [sys.executable, "-m", "xscl", "eval", "-q", "t[./v->v]", "--channel", "t", "--ts", "at", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert '"ts": "1970-01-02T00:00:00Z"' in done.stdout


def test_functions_may_need_pandas(tmp_path):
    (tmp_path / "shouting.py").write_text(
        "import pandas as pd\nimport xscl\n"
        "@xscl.function\ndef shout(text: str) -> str:\n    return pd.Series([text]).str.upper()[0]\n"
    )
    (tmp_path / "a.xml").write_text("<a><b>x</b></a>")
    command = [sys.executable, "-m", "xscl", "--functions", "shouting", "eval", "-q", "a//a[shout(./b) = 'X']/b->b"]
    done = subprocess.run([*command, "--channel", "a", "a.xml"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"b": "x"' in done.stdout
