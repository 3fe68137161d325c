"""The command `skyband`.

Results go to standard output, everything else to standard error. The exit code is 0, 1 for a failure, 2 for
a wrong call, 130 after Ctrl-C. An error is one sentence; `--debug`, before or after the command, shows the
traceback instead. This module imports next to nothing, so that `skyband --help` is there at once: each
command fetches what it needs when it runs.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from skyband.core.errors import QueryError, SkybandError
from skyband.server.settings import describe_serve

app = typer.Typer(
    name="skyband",
    help="Exact continuous top-k over sliding windows: say once what you want to watch, and the answer is "
    "always there as rows stream by.",
    epilog="New here? Try: skyband hello",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # the plain help is there in half the time
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


class Action(StrEnum):
    add = "add"
    drop = "drop"
    list = "list"


class Unit(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


Sql = Annotated[
    list[str],
    typer.Option(
        "--sql",
        metavar="QUERY",
        help='The query, such as "SELECT id, x FROM s ORDER BY x DESC LIMIT 5 WINDOW 1000 ROWS"; may be repeated.',
        show_default=False,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="COLUMN", help="The column that holds the time of a row.", show_default=False
    ),
]
TimeUnit = Annotated[
    Unit | None,
    typer.Option("--time-unit", help="The unit of a time column of numbers.", show_default="s"),
]
PipelineFile = Annotated[Path, typer.Argument(metavar="PIPELINE.TOML", help="What to read, ask and write.")]


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function fit for a command: it ends quietly when its reader closes the pipe (| head)."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes standard output once more at exit: let that go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as problem:
            if problem.errno not in _FULL or problem.filename is not None:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SkybandError(
                f"What was found can't be written ({problem.strerror}): make room, or send it elsewhere."
            ) from problem

    return wrapped


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add a command to the app."""
    app.command()(wrapped := guarded(function))
    return wrapped


def _version(wanted: bool) -> None:
    if wanted:
        from skyband import __version__

        print(f"skyband {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


@command
def hello(
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so many seconds.", min=0.0, show_default=False)
    ] = None,
) -> None:
    """A live top-k in the terminal, in seconds."""
    from skyband.terminal.hello import run_hello
    from skyband.terminal.quick import without_pandas

    without_pandas()
    run_hello(seconds)


@command
def top(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV, JSON lines or Parquet; - for standard input.")
    ],
    sql: Sql,
    time: Time = None,
    time_unit: TimeUnit = None,
    max_ahead: Annotated[
        str | None,
        typer.Option(
            "--max-ahead",
            metavar="DURATION",
            help="Rows stamped further ahead of the latest time wait, as in 1 hour.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print the answer.")] = Format.table,
    every: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Print the top after every N rows, and at the end.", min=1, show_default=False
        ),
    ] = None,
) -> None:
    """Replay a file and print the top at its end, or every N rows.

    The kind of file is recognised by its content; .gz, .zst, .bz2 and .lz4 are unpacked. Rows that can't be
    used are counted on standard error. JSON is one array: of the rows, or with --every of objects with
    "rows" (how many had come) and "top".
    """
    from skyband.terminal.output import Answers
    from skyband.terminal.progress import Bar
    from skyband.terminal.quick import without_pandas
    from skyband.terminal.replay import Replay, parse_all

    without_pandas()
    _insist_on_ctrl_c()
    queries = parse_all(sql)
    if len(queries) > 1 and format is Format.csv:
        raise typer.BadParameter("csv holds the answer of one query; take json or table for several")
    replay = Replay(file, queries, time, time_unit, max_ahead)
    answers = Answers(format.value, every is not None, len(queries) > 1)

    def tell(rows: int) -> None:
        for name, watch in replay.monitor.watches.items():
            answers.write(name, rows, watch.top())

    try:
        # A bar and tables on the same terminal would write over each other.
        with Bar("reading", shown=sys.stderr.isatty() and not (every and sys.stdout.isatty())) as bar:
            replay.run(bar, every, tell)
        if every is None or replay.rows == 0 or replay.rows % every:
            tell(replay.rows)
    except BaseException:
        answers.close(failed=True)
        raise
    answers.close()
    replay.report()


@command
def explain(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="Replay this file first; or a pipeline file to explain.",
            show_default=False,
        ),
    ] = None,
    sql: Sql = [],  # noqa: B006 - typer makes a new one
    time: Time = None,
    time_unit: TimeUnit = None,
    all_of_it: Annotated[
        bool, typer.Option("--all", help="Print every algorithm that was not taken, and why.")
    ] = False,
) -> None:
    """Print the plan of a query.

    The plan says which algorithm answers it, why, and how many rows that keeps: predicted, and with a file
    also what it really kept after the file's last row. Of a pipeline file it says where the state will be, and why,
    and the plan of each of its queries.
    """
    if not sql and file is not None and file.endswith(".toml"):
        from skyband.spark.driver.placement import explain_pipeline

        print(explain_pipeline(file, all_of_it))
        return
    if not sql:
        raise typer.BadParameter("give the query with --sql, or a pipeline file.")
    from skyband.terminal.progress import Bar
    from skyband.terminal.quick import without_pandas
    from skyband.terminal.replay import Replay, monitor_of, parse_all

    without_pandas()
    queries = parse_all(sql)
    if file is None:
        monitor = monitor_of(None, queries, time or needed_time(queries), time_unit)
    else:
        replay = Replay(file, queries, time, time_unit)
        with Bar("reading") as bar:
            replay.run(bar)
        monitor = replay.monitor
        replay.report()
    print("\n\n".join(watch.explain().text(all_of_it) for watch in monitor.watches.values()))


def needed_time(queries: dict[str, Any]) -> str | None:
    """A name for the time column of a plan that is made without rows, if a window is a duration."""
    from skyband.query.model import Last

    return "ts" if any(isinstance(query.window, Last) for query in queries.values()) else None


@command
def run(
    pipeline: PipelineFile,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Stop when everything that is there has been read.")
    ] = False,
) -> None:
    """Run a pipeline on Spark, until Ctrl-C."""
    from skyband.terminal.pipeline import run_pipeline_live

    run_pipeline_live(pipeline, available_now)


@command
def demo(
    output: Annotated[Path, typer.Option(help="The folder for what the pipeline writes.")] = Path(
        "skyband-demo"
    ),
) -> None:
    """Five questions to real flights, on Spark, live in the terminal."""
    from skyband.terminal.pipeline import run_demo_live

    run_demo_live(output)


@command
def verify(pipeline: PipelineFile) -> None:
    """Check a pipeline's output against the brute force."""
    from skyband.terminal.pipeline import verify_and_say

    verify_and_say(pipeline)


@command
def queries(
    action: Annotated[Action, typer.Argument(metavar="add|drop|list", help="What to do.")],
    pipeline: PipelineFile,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The query.", show_default=False)
    ] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="QUERY", help="What to ask, to add it.", show_default=False)
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to print the list.")] = Format.table,
) -> None:
    """Add, drop or list the queries of a running pipeline.

    Changes hold from the next micro-batch on.
    """
    from skyband.terminal.pipeline import change_queries

    if (name is None) is not (action is Action.list):
        raise typer.BadParameter("add and drop need the query's name, list takes none.")
    if (sql is None) is (action is Action.add):
        raise typer.BadParameter(
            "give the query with --sql, to add it." if sql is None else "--sql is for add."
        )
    change_queries(action.value, pipeline, name or "", sql or "", format.value)


def _serve(pipeline: Path | None = None, **options: Any) -> None:
    from skyband.terminal.serving import serve

    serve(pipeline, options)


_serve.__name__ = "serve"
_serve.__doc__ = """HTTP, WebSocket and the dashboard.

    Without a pipeline, an engine of its own: push rows and ask queries over HTTP; what was acknowledged is on disk.
    With one, the pipeline is run on Spark and its answers are shown the same way. On any address but this machine's
    own, every request needs a token.
    """
describe_serve(_serve)
serve = command(_serve)


@command
def warm(
    sql: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SQL …]", help="What will be asked; without it the usual queries.", show_default=False
        ),
    ] = None,
    plan: Annotated[str | None, typer.Option(help="Compile for a stream that waits.", hidden=True)] = None,
) -> None:
    """Compile what queries need, for images and first starts."""
    from skyband.engine import warming

    if plan is not None:
        warming.attend(plan)
        return
    for query in sql or warming.USUAL:
        print(warming.warm(query), flush=True)


@app.command(
    hidden=True,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
def bench() -> None:
    print(
        "Benchmarks are not part of the installed package: run them with `python -m benchmarks` in a clone of the "
        "repository.",
        file=sys.stderr,
    )
    raise typer.Exit(2)


def _insist_on_ctrl_c() -> None:
    """Ctrl-C ends a command that has nothing to tidy up, whatever it is at.

    A KeyboardInterrupt that strikes inside a callback (a finalizer, one of the compiler's) is swallowed there, and a
    command that waits for standard input would wait for ever: so a timer asks again until the process has gone. The
    kernel's timer, not a thread's: the interrupted code may hold a lock that starting a thread needs.
    """
    import signal

    def interrupt(number: int, _: object) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 1.0)
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):  # not in the main thread: the caller handles Ctrl-C
        signal.signal(signal.SIGINT, interrupt)
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, interrupt)


def main(app: typer.Typer = app, name: str = "skyband") -> None:
    """The entry point: run the command, turn what goes wrong into a sentence and an exit code."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    for output in ("stdout", "stderr"):
        if getattr(sys, output) is None:  # closed by the caller (>&-), which wants no output
            setattr(sys, output, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run
    for stream in (sys.stdout, sys.stderr):
        # What a terminal or a pipe can't say (é in ASCII) is escaped: data may hold anything, and must not end us.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _run(app, name, arguments, debug)
    if "pyspark" not in sys.modules:
        # Arrow's reading threads may still be at work on what is not wanted any more (a query found wrong after the
        # first block); taking the interpreter down around them can end in an abort instead of the exit code.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def _run(app: typer.Typer, name: str, arguments: list[str], debug: bool) -> int:
    try:
        return int(app(arguments, prog_name=name, standalone_mode=False) or 0)
    except KeyboardInterrupt:
        return 130
    except Exception as problem:
        code, sentence = _sentence(problem)
        if debug:
            import traceback

            traceback.print_exc()
        else:
            print(sentence, file=sys.stderr)
        return code


def _sentence(problem: Exception) -> tuple[int, str]:
    """The exit code and what to say."""
    if isinstance(problem, QueryError):
        caret = problem.caret() if sys.stderr.isatty() else None
        return 2, str(problem) if caret is None else f"{problem}\n{caret}"
    if isinstance(problem, SkybandError):
        return 1, str(problem)
    if hasattr(problem, "format_message"):  # the words of the command line itself
        text = str(problem.format_message()).replace("Value error, ", "").rstrip(". \n")
        context = getattr(problem, "ctx", None)
        path = "skyband" if context is None else context.command_path
        if type(problem).__name__ == "NoArgsIsHelpError":
            return 2, text
        return 2, f"{text} See {path} --help." if text.endswith("?") else f"{text}: see {path} --help."
    said = f"{type(problem).__name__}: {problem}".strip().splitlines()[0].rstrip(".: ")
    return 1, f"Something unexpected went wrong ({said}): run it again with --debug and report what it shows."


if __name__ == "__main__":
    main()
