"""A Spark session with the settings that pipelines need; the only place where one is made.

Called by the runner, and by people in notebooks:

    spark = headwater.session()

Traps that it keeps away: workers run another Python than the driver (PYSPARK_PYTHON), no Java or an
old one, 200 shuffle partitions on a laptop, local time zones, filters that never reach the source.
What is set here are defaults: `settings` and an existing session win.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.pipelines.errors import PipelineError, brief
from headwater.pipelines.java import ARROW, launching_java, settle_environment
from headwater.pipelines.spark_home import compiled_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_STATE = "org.apache.spark.sql.execution.streaming.state"

COMMON = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    # RocksDB keeps state outside the heap, and transformWithState needs it.
    "spark.sql.streaming.stateStore.providerClass": f"{_STATE}.RocksDBStateStoreProvider",
    # A commit writes what has changed; all of it, only now and then and beside.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A plan that is cut short cannot be compared with the plan of the last run.
    "spark.sql.debug.maxToStringFields": "10000",
    # Where in the user's file each column was made: a dozen calls into Java for every one.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # An idle query says where it stands this often: so lag is seen to grow, and to be nothing.
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
}
# Small batches keep Spark planning, in thousands of methods that are each called a little: to optimise
# them takes more than it saves. What goes through many rows is optimised all the same, a moment later.
_JUST_IN_TIME = {
    "Tier4InvocationThreshold": 50_000,
    "Tier4MinInvocationThreshold": 6_000,
    "Tier4CompileThreshold": 150_000,
    "Tier4BackEdgeThreshold": 400_000,
}
"""Of the JVM, each ten times its default."""
APPLICATION = {
    **{f"spark.executorEnv.{name}": value for name, value in ARROW.items()},
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Queries of one application share the executors fairly instead of one after the other.
    "spark.scheduler.mode": "FAIR",
}


def session(
    master: str | None = None,
    *,
    remote: str | None = None,
    name: str = "headwater",
    settings: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
    log_file: Path | None = None,
) -> SparkSession:
    """The session of this process, made where there is none.

    `master`: local[*] unless given; `remote`: a Spark Connect server (sc://HOST:PORT) instead.
    `log_file`: where Spark's own log goes, which is otherwise the console.
    """
    require_pyspark()
    if remote is not None:
        return _remote(remote, dict(settings or {}))
    from pyspark.sql import SparkSession

    if _launch is not None:
        _launch.join()
    settle_environment(SparkSession.getActiveSession() is None)
    builder: Any = SparkSession.builder
    everything = settings_for(master or DEFAULT_MASTER, settings or {}, jars, log_file)
    for setting, value in everything.items():
        builder = builder.config(setting, value)
    try:
        local = (master or DEFAULT_MASTER).startswith("local")
        with launching_java(log_file), compiled_pyspark() if local else nullcontext():
            made: SparkSession = (
                builder.appName(name).master(master or DEFAULT_MASTER).getOrCreate()
            )
    except Exception as error:
        raise PipelineError(
            f"Spark did not start with master {master or DEFAULT_MASTER}: {brief(error)}",
            hint="check --master, and that its address can be reached"
            + (f"; Java's own words are in {log_file}" if log_file else ""),
        ) from error
    return _with_one_daemon(made) if local else made


def launch(
    master: str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
    log_file: Path | None = None,
) -> None:
    """Start the Java of a session that will be made with the same words, and go on meanwhile.

    What fails here is tried again, and told, when the session is made.
    """
    global _launch
    require_pyspark()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None or _launch is not None:
        return

    def start() -> None:
        with suppress(Exception):
            _start_java(master or DEFAULT_MASTER, settings or {}, jars, log_file)

    _launch = threading.Thread(target=start, name="java", daemon=True)
    _launch.start()
    with suppress(ImportError):
        # PySpark's first call into Java imports pandas: better while there is no Java yet.
        import_module("pyspark.testing.utils")


def _start_java(
    master: str, settings: Mapping[str, str], jars: Sequence[Path], log_file: Path | None
) -> None:
    from pyspark import SparkConf, SparkContext

    settle_environment(True)
    conf = SparkConf()
    everything = settings_for(master, settings, jars, log_file)
    for setting, value in {**everything, "spark.master": master}.items():
        conf.set(setting, value)
    local = master.startswith("local")
    with launching_java(log_file), compiled_pyspark() if local else nullcontext():
        SparkContext._ensure_initialized(conf=conf)


def _with_one_daemon(spark: SparkSession) -> SparkSession:
    """Let tasks that read a Python source and those that run functions be forked from one process.

    Spark starts a daemon for each environment that it is asked for. Those of a source that it finds by its
    name have a PYTHONPATH and nothing else; with the same for all others there is one daemon, where a second
    would cost two seconds of CPU and another copy of all that it imports.
    """
    context = spark.sparkContext
    assert context._jvm is not None
    own = context._jvm.org.apache.spark.api.python.PythonUtils.sparkPythonPath()
    given = context._jvm.System.getenv("PYTHONPATH")
    for name, value in list(context.environment.items()):
        if context._jvm.System.getenv(name) == value:
            del context.environment[name]  # a daemon has it from the JVM
    context.environment["PYTHONPATH"] = ":".join(filter(None, (own, given)))
    return spark


def settings_for(
    master: str,
    settings: Mapping[str, str],
    jars: Sequence[Path] = (),
    log_file: Path | None = None,
) -> dict[str, str]:
    """Every setting of a session, the caller's last."""
    chosen = {**COMMON, **APPLICATION}
    if master.startswith("local"):
        # A task per core: more only adds a state store and a file for each to every batch.
        chosen["spark.sql.shuffle.partitions"] = str(_cores(master))
        chosen["spark.driver.host"] = "127.0.0.1"
        chosen["spark.driver.bindAddress"] = "127.0.0.1"
    if jars:
        chosen["spark.jars"] = ",".join(map(str, jars))
    java = [f"-XX:{name}={value}" for name, value in _JUST_IN_TIME.items()]
    if master.startswith("local"):
        from headwater.pipelines import class_archive  # also run as a module

        java += class_archive.options()
        python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        if python in (None, "", sys.executable):
            chosen["spark.python.daemon.module"] = "headwater.spark.daemon"
    if log_file is not None:
        config = Path(__file__).with_name("log4j2.properties")
        java += [
            f"-Dlog4j2.configurationFile={config.as_uri()}",
            f"-Dheadwater.spark.log={log_file}",
        ]
    chosen["spark.driver.extraJavaOptions"] = " ".join(java)
    return {**chosen, **settings}


_launch: threading.Thread | None = None


def require_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise PipelineError(
            "pipelines run on PySpark, which is not installed",
            hint="pip install 'headwater[spark]'",
        )


def _remote(remote: str, settings: dict[str, str]) -> SparkSession:
    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise PipelineError(
            f"Spark Connect ({remote}) needs gRPC, which is not installed",
            hint="pip install 'headwater[connect]'",
        )
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    try:
        made: SparkSession = builder.remote(remote).getOrCreate()
        for setting, value in {**COMMON, **settings}.items():
            made.conf.set(setting, value)
    except Exception as error:
        raise PipelineError(
            f"no Spark Connect server answers at {remote}: {brief(error)}",
            hint="check the address of --remote",
        ) from error
    return made


def _cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    if inside.isdigit():
        return int(inside)
    return os.cpu_count() or 1 if inside == "*" else 1
