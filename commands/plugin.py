"""``plugin serve|devices|labels|validate``: the Kubernetes device plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands.options import OutputFormat, OutputOption

if TYPE_CHECKING:
    from plugin.config import PluginConfig

plugin_app = typer.Typer(
    name="plugin", help="The Kubernetes device plugin of a node.", no_args_is_help=True
)

FakeOption = Annotated[
    str | None,
    typer.Option(
        "--fake",
        metavar="PRESET|FILE",
        help="GPUs of a preset, or of a capture of nvidia-smi topo -m, instead of the driver's.",
    ),
]
FakeStateOption = Annotated[
    Path | None,
    typer.Option("--fake-state", metavar="FILE", help="JSON file with faults of the fake GPUs."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config-file",
        metavar="FILE",
        envvar="CONFIG_FILE",
        help="Config in the v1 form of NVIDIA's plugin; read again when it changes.",
    ),
]


def _domain(value: str) -> str:
    from plugin.errors import ConfigError
    from plugin.names import resource_name

    try:
        resource_name(value, "gpu")
    except ConfigError as error:
        raise typer.BadParameter(error.rule) from error
    return value


DomainOption = Annotated[
    str, typer.Option("--domain", callback=_domain, help="Domain of the resource names.")
]
MigOption = Annotated[str | None, typer.Option("--mig-strategy", help="none, single or mixed.")]
RuntimeOption = Annotated[
    Path | None,
    typer.Option(
        "--runtime-config",
        metavar="FILE",
        envvar="NVIDIA_CONTAINER_RUNTIME_CONFIG",
        help="Config of the node's container runtime, to say what it lets containers take; "
        "/etc/nvidia-container-runtime/config.toml, with --fake none.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any value of the config file by its path, e.g. "
        "flags.plugin.deviceListStrategy=cdi-cri.",
    ),
]


@plugin_app.callback()
def _plugin() -> None:
    """Run the device plugin of a node, or show what it would do."""


def _over(mig_strategy: str | None, settings: list[str] | None) -> dict[str, Any]:
    """Options in the shape of a config file."""
    from plugin.environment import put

    over: dict[str, Any] = {}
    if mig_strategy is not None:
        put(over, ("flags", "migStrategy"), mig_strategy)
    for setting in settings or ():
        key, is_there, value = setting.partition("=")
        if not is_there or not key:
            raise typer.BadParameter(f'"{setting}" is not KEY=VALUE', param_hint="--set")
        put(over, tuple(key.split(".")), value)
    return over


@plugin_app.command("serve")
def serve(
    fake: FakeOption = None,
    fake_state: FakeStateOption = None,
    mock_kubelet: Annotated[
        bool,
        typer.Option(
            "--mock-kubelet", help="Walk through the kubelet's calls with a mock one, then leave."
        ),
    ] = False,
    config_file: ConfigOption = None,
    domain: DomainOption = "nvidia.com",
    mig_strategy: MigOption = None,
    settings: SetOption = None,
    geometry: Annotated[
        Path | None,
        typer.Option(
            "--geometry",
            metavar="FILE",
            help="Wanted MIG geometry: the JSON of mig plan; applied and followed.",
        ),
    ] = None,
    node_name: Annotated[
        str | None, typer.Option("--node-name", envvar="NODE_NAME", help="This node's name.")
    ] = None,
    kubelet_dir: Annotated[
        Path, typer.Option("--kubelet-dir", metavar="FOLDER", help="Root of the kubelet's files.")
    ] = Path("/var/lib/kubelet"),
    watcher: Annotated[
        bool,
        typer.Option("--watcher", help="Be found by the kubelet's plugin watcher instead."),
    ] = False,
    cdi_dir: Annotated[
        Path, typer.Option("--cdi-dir", metavar="FOLDER", help="Where the CDI spec is written.")
    ] = Path("/var/run/cdi"),
    http_port: Annotated[
        int,
        typer.Option(
            "--http-port", min=0, max=65535, help="Port of /metrics, /readyz, /healthz; 0: none."
        ),
    ] = 0,
    http_host: Annotated[
        str, typer.Option("--http-host", help="Address they are served on.")
    ] = "127.0.0.1",
    check_interval_s: Annotated[
        float,
        typer.Option(
            "--check-interval", min=0.05, help="Seconds between looks at the kubelet's socket."
        ),
    ] = 5.0,
    inotify: Annotated[
        bool, typer.Option("--inotify/--no-inotify", help="Also be told of changes at once.")
    ] = True,
    rescan_s: Annotated[
        float, typer.Option("--rescan", min=0.05, help="Seconds between listings of the devices.")
    ] = 30.0,
    probe_s: Annotated[
        float, typer.Option("--probe", min=0.05, help="Seconds between probes of the GPUs.")
    ] = 5.0,
    hold_down_s: Annotated[
        float,
        typer.Option(
            "--hold-down", min=0, help="Seconds a failed GPU must be well to be trusted again."
        ),
    ] = 30.0,
    pre_start: Annotated[
        bool,
        typer.Option("--pre-start", help="Check devices once more before a container starts."),
    ] = False,
    runtime_config: RuntimeOption = None,
) -> None:
    """Serve this node's GPUs to the kubelet until told to stop."""
    from commands.plugin_serve import Wishes, run, walk
    from commands.plugin_setup import need_extra, runtime_config_file

    need_extra()
    wishes = Wishes(
        fake=fake,
        fake_state=fake_state,
        config_file=config_file,
        domain=domain,
        over=_over(mig_strategy, settings),
        geometry=geometry,
        node_name=node_name,
        kubelet_dir=kubelet_dir,
        watcher=watcher,
        cdi_dir=cdi_dir,
        http=(http_host, http_port),
        check_interval_s=check_interval_s,
        inotify=inotify,
        rescan_s=rescan_s,
        probe_s=probe_s,
        hold_down_s=hold_down_s,
        pre_start=pre_start,
        runtime_config=runtime_config_file(runtime_config, fake),
    )
    if mock_kubelet:
        walk(wishes)
    else:
        run(wishes)


@plugin_app.command("devices")
def devices(
    fake: FakeOption = None,
    fake_state: FakeStateOption = None,
    config_file: ConfigOption = None,
    domain: DomainOption = "nvidia.com",
    mig_strategy: MigOption = None,
    settings: SetOption = None,
    runtime_config: RuntimeOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show what would be advertised, without talking to a kubelet."""
    from commands.output import emit
    from commands.plugin_setup import config_loader, device_source, runtime_config_file
    from plugin.description import describe
    from plugin.exposure import exposure_notes, read_exposure
    from plugin.resources import offer
    from report.plugin_view import devices_view

    config = config_loader(config_file, domain, _over(mig_strategy, settings))()
    source = device_source(fake, fake_state, once=True)
    try:
        node = source.scan()
    finally:
        source.close()
    wanted = offer(node, config)
    runtime = runtime_config_file(runtime_config, fake)
    exposure = None if runtime is None else read_exposure(runtime)
    exposed = () if exposure is None else exposure_notes(exposure, config)
    for note in (*config.notes, *wanted.notes, *exposed):
        typer.echo(f"note: {note}", err=True)
    report = describe(node, wanted, exposure)
    emit(output, report, devices_view(report))


@plugin_app.command("labels")
def labels(
    fake: FakeOption = None,
    fake_state: FakeStateOption = None,
    config_file: ConfigOption = None,
    domain: DomainOption = "nvidia.com",
    mig_strategy: MigOption = None,
    settings: SetOption = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FILE", help="Write the labels here, as NFD's features.d takes them."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on, every sleepInterval of the config (60 s)."),
    ] = False,
) -> None:
    """Print the node labels of GPU feature discovery, one key=value a line."""
    import time

    from commands.output import check_target, write_file
    from commands.plugin_setup import config_loader, device_source
    from plugin.labels import labels as labels_of

    check_target(save, "--save")
    config: PluginConfig = config_loader(config_file, domain, _over(mig_strategy, settings))()
    target = save or (Path(config.labels.output_file) if config.labels.output_file else None)
    while True:
        source = device_source(fake, fake_state, once=True)
        try:
            node = source.scan()
        finally:
            source.close()
        now = None if config.labels.no_timestamp else int(time.time())
        found = labels_of(node, config, machine=_machine_type(config), now=now)
        text = "".join(f"{key}={value}\n" for key, value in sorted(found.items()))
        if target is None:
            typer.echo(text, nl=False)
        else:
            write_file(target, text)
            typer.echo(f"{target}: {len(found)} labels", err=True)
        if not follow or config.labels.oneshot or config.labels.sleep_s is None:
            return
        time.sleep(config.labels.sleep_s)


def _machine_type(config: PluginConfig) -> str:
    file = Path(config.labels.machine_type_file or "/sys/class/dmi/id/product_name")
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@plugin_app.command("validate")
def validate(
    config_file: Annotated[Path, typer.Argument(metavar="FILE")],
    domain: DomainOption = "nvidia.com",
) -> None:
    """Check a config file: every fault with its place, exit code 3 if there is one."""
    from commands.plugin_setup import read_config_file
    from plugin.config import PluginConfig

    config = read_config_file(config_file, {}, PluginConfig(domain=domain))
    for note in config.notes:
        typer.echo(f"note: {note}", err=True)
    shared = ", ".join(f"{one.suffix} x {one.replicas}" for one in config.sharing) or "nothing"
    typer.echo(f"{config_file}: valid; MIG strategy {config.mig_strategy}, shared: {shared}")
