"""One AMD GPU: files of /sys kept open and read again.

gpu_busy_percent and mem_busy_percent are per cent of the firmware's last sample period; memory is
in bytes, hwmon in µW, Hz, m°C and µJ (kernel doc, amdgpu thermal and hwmon). gpu_metrics fills in
what the chip has no file for.
"""

from __future__ import annotations

import os
import re

from slurm_io.gpus.amd.metrics import parse_metrics, pcie_generation
from slurm_io.gpus.model import Identity, Value
from slurm_io.host.kept import KeptFile
from slurm_io.host.pcie import parse_speed, parse_width
from slurm_io.host.read import read_optional_line, read_optional_number

_MICRO, _MILLI = 1e6, 1000
_CURRENT_LEVEL = re.compile(r"^\d+: *(\d+)[Mm][Hh]z \*$", re.MULTILINE)
_JUNCTION = "junction"
_LEVELS = {"sm_clock_mhz": "pp_dpm_sclk", "mem_clock_mhz": "pp_dpm_mclk"}
_RENDER = re.compile(r"renderD(\d{1,4})", re.ASCII)
_WANTED = (
    "util_share", "mem_util_share", "mem_used_bytes", "mem_total_bytes", "power_w", "energy_j",
    "sm_clock_mhz", "mem_clock_mhz", "throttle_reasons", "temperature_c", "pcie_gen", "pcie_width",
    "pcie_gen_max", "pcie_width_max",
)  # fmt: skip


def identify(folder: str, gpu: int) -> Identity:
    """Who the GPU at this PCI device's folder is; nothing of it that could hang is read."""
    unique = read_optional_line(f"{folder}/unique_id")
    minors = [found for name in _names(f"{folder}/drm") if (found := _RENDER.fullmatch(name))]
    return Identity(
        gpu=gpu,
        uuid=f"GPU-{unique}" if unique and re.fullmatch("[0-9a-f]{16}", unique) else None,
        minor=int(minors[0][1]) if minors else None,
        bus=os.path.basename(folder),
        name=read_optional_line(f"{folder}/product_name") or "",
        vendor="amd",
    )


class AmdCard:
    """A GPU's files. Missing ones cost their columns."""

    def __init__(self, folder: str, gpu: int) -> None:
        self.folder = folder
        self.identity = identify(folder, gpu)
        hwmon = next((f"{folder}/hwmon/{name}" for name in sorted(_names(f"{folder}/hwmon"))), "")
        power = f"{hwmon}/power1_average"
        if not os.path.exists(power):
            power = f"{hwmon}/power1_input"  # chips from MI300 on tell the moment's
        self._each_time = [
            ("util_share", KeptFile(f"{folder}/gpu_busy_percent"), 100.0),
            ("mem_util_share", KeptFile(f"{folder}/mem_busy_percent"), 100.0),
            ("mem_used_bytes", KeptFile(f"{folder}/mem_info_vram_used"), 1),
            ("power_w", KeptFile(power), _MICRO),
            ("sm_clock_mhz", KeptFile(f"{hwmon}/freq1_input"), 1_000_000),
            ("mem_clock_mhz", KeptFile(f"{hwmon}/freq2_input"), 1_000_000),
        ]
        self._temperature = KeptFile(_junction_file(hwmon))
        self._energy = KeptFile(f"{hwmon}/energy1_input")
        self._metrics = KeptFile(f"{folder}/gpu_metrics")
        self._levels = {name: KeptFile(f"{folder}/{file}") for name, file in _LEVELS.items()}
        self._constant = _constants(folder)
        self._seldom: dict[str, Value] = {}
        self._energy_j: float | None = None
        self._missing: dict[str, str] = {}
        self._metrics_trouble = ""

    def read(self, everything: bool) -> dict[str, Value]:
        """Column values now."""
        values: dict[str, Value] = {}
        for name, file, unit in self._each_time:
            number = _number(file)
            if number is not None:
                values[name] = number // unit if isinstance(unit, int) else number / unit
        if everything:
            self._seldom = self._constant | _link(self.folder) | self._read_temperature()
        metrics = parse_metrics(self._metrics.read() or b"")
        self._metrics_trouble = metrics.trouble
        values = metrics.values | self._current_levels(values) | self._seldom | values
        values |= self._energy_since(metrics.energy_j)
        if everything:
            self._missing = {name: self._why(name) for name in _WANTED if values.get(name) is None}
        return values

    def refused(self) -> dict[str, str]:
        """Column -> why it has no values."""
        return dict(self._missing)

    def is_gone(self) -> bool:
        """The device was taken away."""
        return not os.path.exists(self.folder)

    def close(self) -> None:
        """Give the descriptors back."""
        files = [file for _name, file, _unit in self._each_time]
        for file in (
            *files,
            self._temperature,
            self._energy,
            self._metrics,
            *self._levels.values(),
        ):
            file.close()

    def _read_temperature(self) -> dict[str, Value]:
        number = _number(self._temperature)
        return {} if number is None else {"temperature_c": number // _MILLI}

    def _current_levels(self, known: dict[str, Value]) -> dict[str, Value]:
        """Clocks of the levels marked ``*``, for chips without a clock in hwmon."""
        found: dict[str, Value] = {}
        for name, file in self._levels.items():
            content = None if name in known else file.read()
            level = _CURRENT_LEVEL.search((content or b"").decode("ascii", "replace"))
            found |= {} if level is None else {name: int(level[1])}
        return found

    def _energy_since(self, of_metrics_j: float | None) -> dict[str, Value]:
        micro_j = _number(self._energy)
        now = of_metrics_j if micro_j is None else micro_j / _MICRO
        last, self._energy_j = self._energy_j, now
        return {} if now is None or last is None or now < last else {"energy_j": now - last}

    def _why(self, name: str) -> str:
        if name == "energy_j" and self._energy_j is not None:
            return "no second reading yet"
        trouble = self._metrics_trouble or "gpu_metrics does not fill it in"
        return f"this chip and kernel have no file for it, and {trouble}"


def _number(file: KeptFile) -> int | None:
    content = (file.read() or b"").strip()
    return int(content) if content.isdigit() else None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _junction_file(hwmon: str) -> str:
    """The hottest point where the chip tells it, else its edge."""
    for number in range(1, 4):
        if read_optional_line(f"{hwmon}/temp{number}_label") == _JUNCTION:
            return f"{hwmon}/temp{number}_input"
    return f"{hwmon}/temp1_input"


def _constants(folder: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "mem_total_bytes": read_optional_number(f"{folder}/mem_info_vram_total"),
        "pcie_gen_max": _generation(read_optional_line(f"{folder}/max_link_speed")),
        "pcie_width_max": parse_width(read_optional_line(f"{folder}/max_link_width")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _link(folder: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "pcie_gen": _generation(read_optional_line(f"{folder}/current_link_speed")),
        "pcie_width": parse_width(read_optional_line(f"{folder}/current_link_width")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _generation(text: str | None) -> int | None:
    speed = parse_speed(text)
    return None if speed is None else pcie_generation(round(10 * speed))
