"""Who a box is, and what it runs under: stable where it must be, different where it matters."""

from __future__ import annotations

import pytest

import hardware_tree
from edgesweep_agent import device
from edgesweep_agent.core import chip_names, cpu_info, dmi, jetson
from edgesweep_agent.core.hardware_class import of_mac
from edgesweep_agent.core.memory_size import gpu_gib, ram_gib
from edgesweep_agent.core.performance_state import Caps, Policy, performance_state
from edgesweep_agent.sensors import nvml
from edgesweep_agent.sensors.files import absent
from fake_nvml import FakeNvml

NANO = "jetson-orin-nano-8gb-devkit-jp6-15w"
NX = "jetson-orin-nx-16gb-jp5-25w"
AGX = "jetson-agx-orin-64gb-devkit-jp6-maxn"
N97 = "intel-n97-industrial-pc"
A2000 = "x86-ipc-rtx-a2000-12gb"
PI = "raspberry-pi-5-8gb"
NO_NVML = absent("no NVML")


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    """Each board's files, built once."""
    roots = {name: tmp_path_factory.mktemp("box") for name in hardware_tree.NAMES}
    return {name: hardware_tree.box(root, name) for name, root in roots.items()}


def described(boxes, name, library=None, **changed):
    files, told = boxes[name], hardware_tree.nvml_of(name)
    library = library or (nvml.start(told) if told else NO_NVML)
    with hardware_tree.changed(files.root, changed):
        return device.describe_box("box-1", {}, files, library)


def of_files(root, told, library=NO_NVML):
    return device.describe_box("box-1", {}, hardware_tree.build(root, told), library)


def card(name, memory_mib=None, count=1):
    told = {"init": "ok", "count": count, "name": name}
    if memory_mib:
        told["memory"] = {"total_mib": memory_mib, "used_mib": 0, "free_mib": memory_mib}
    return nvml.start(FakeNvml(told))


@pytest.mark.parametrize(
    ("board", "hardware_class", "state"),
    [
        (
            NANO,
            "jetson.tegra234.p3767-0005.8g.6c",
            "cpu6@1497.6,gpu@612,tpc-off@0xfc,emc@2133,super,schedutil,free",
        ),
        (
            NX,
            "jetson.tegra234.p3767-0000.16g.8c",
            "cpu8@1497.6,gpu@408,emc@3199,schedutil,free",
        ),
        (
            AGX,
            "jetson.tegra234.p3701-0005.64g.12c",
            "cpu12@2201.6,gpu@1300.5,emc@3199,schedutil,free",
        ),
        (
            N97,
            "x86.6-190.intel-n97.onlogic-cl260.8g.igpu-8086:46d1.4c",
            "cpu4@3600,igpu@1200,pl1@12w,pl2@25w,powersave/balance_performance,free",
        ),
        (
            A2000,
            "x86.6-151.intel-i7-12700e.advantech-mic-770v3w.32g.rtx-a2000-12g.20c",
            "cpu20@4800+3600,gpu-pl@70w,performance,free",
        ),
        (PI, "pi.bcm2712.5-model-b.8g.4c", "cpu4@2400,ondemand,free"),
    ],
)
def test_the_cell_of_every_board(boxes, board, hardware_class, state):
    found = described(boxes, board)
    assert (found.hardware_class, found.performance_state) == (hardware_class, state)


@pytest.mark.parametrize(
    "changed",
    [
        {"proc/device-tree/model": "NVIDIA Jetson Orin NX Developer Kit\0"},
        {"sys/devices/soc0/machine": "something else\n"},
        {"etc/nv_tegra_release": "# R39 (release), REVISION: 2.0, GCID: 1\n"},
        {"proc/sys/kernel/osrelease": "6.8.12-1021-tegra\n"},
        {"proc/meminfo": "MemTotal:        7665664 kB\n"},
        {"sys/class/dmi/id/product_name": "NVIDIA Jetson Orin Nano\n"},
        {"sys/devices/system/cpu/online": "0-3\n"},
        {
            "proc/device-tree/compatible": (
                "nvidia,p3768-0000+p3767-0005\0nvidia,p3767-0005\0nvidia,tegra234\0"
            )
        },
    ],
)
def test_a_release_a_text_or_a_mode_does_not_change_what_a_board_is(boxes, changed):
    found = described(boxes, NANO, **changed)
    assert found.hardware_class == "jetson.tegra234.p3767-0005.8g.6c"


@pytest.mark.parametrize(
    ("path", "text", "part"),
    [
        (
            "sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu/max_freq",
            "624750000\n",
            "gpu@624.75",
        ),
        (
            "sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq",
            "1510400\n",
            "cpu6@2x1510.4+4x1497.6",
        ),
        ("sys/devices/system/cpu/online", "0-3\n", "cpu4@1497.6"),
        ("sys/kernel/nvpmodel_clk_cap/emc", "3199000000\n", "emc@3199"),
        ("sys/devices/platform/bus@0/17000000.gpu/tpc_pg_mask", "248\n", "tpc-off@0xf8"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n", "performance"),
    ],
)
def test_a_live_cap_changes_the_state_and_not_the_class(boxes, path, text, part):
    found = described(boxes, NANO, **{path: text})
    assert part in found.performance_state.split(",")
    assert found.hardware_class == "jetson.tegra234.p3767-0005.8g.6c"


def test_the_name_of_a_mode_is_a_label_and_no_part_of_the_state(boxes):
    found = described(boxes, NANO, **{"var/lib/nvpmodel/status": "pmode:0002\n"})
    assert found.attributes["power_mode"] == "MAXN_SUPER (2)"
    assert found.performance_state == described(boxes, NANO).performance_state


def test_pinned_is_every_policy_and_the_gpu_at_its_cap():
    cpu = (Policy(1_497_600, 1_497_600), Policy(1_497_600, 1_497_600))
    assert performance_state(Caps(policies=cpu)).endswith("pinned")
    assert performance_state(Caps(policies=cpu, gpu_max_khz=2, gpu_min_khz=2)).endswith("pinned")
    assert performance_state(Caps(policies=cpu, gpu_max_khz=2, gpu_min_khz=1)).endswith("free")
    half = (cpu[0], Policy(1_497_600, 729_600))
    assert performance_state(Caps(policies=half)).endswith("free")


@pytest.mark.parametrize(
    ("caps", "text"),
    [
        (Caps(), ""),
        (Caps(online=2), "cpu2"),
        (Caps(online=4, quota=1.5), "cpu4,quota@1.5"),
        (Caps(turbo=False), "no-turbo"),
        (Caps(turbo=True), ""),
        (Caps(gpu_limits_mw=(70_000, 350_000)), "gpu-pl@70w,gpu-pl@350w"),
    ],
)
def test_what_is_not_known_is_left_out_of_the_state(caps, text):
    assert performance_state(caps) == text


@pytest.mark.parametrize(
    ("limits", "quota"),
    [
        (
            {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"},
            "quota@1.5",
        ),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            },
            "quota@0.5",
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            "quota@2",
        ),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, ""),
    ],
)
def test_a_container_runs_under_its_quota(tmp_path, limits, quota):
    assert of_files(tmp_path, limits).performance_state == quota


@pytest.mark.parametrize(
    ("mib", "gib"),
    [
        (3964, 4),
        (3980, 4),
        (6854, 8),
        (7773, 8),
        (7620, 8),
        (7486, 8),
        (15523, 16),
        (15655, 16),
        (30536, 32),
        (62780, 64),
        (62841, 64),
        (125772, 128),
        (124610, 128),
        (9 * 1024, 9),
    ],
)
def test_memory_is_what_the_board_was_sold_with(mib, gib):
    assert ram_gib(mib * 2**20) == gib


@pytest.mark.parametrize(
    ("mib", "gib"), [(12282, 12), (24564, 24), (40536, 40), (81559, 80), (11264, 11), (23028, 24)]
)
def test_memory_of_a_card_likewise(mib, gib):
    assert gpu_gib(mib * 2**20) == gib


@pytest.mark.parametrize(
    ("name", "short", "shared"),
    [
        ("NVIDIA GeForce RTX 3090", "rtx-3090", False),
        ("NVIDIA GeForce RTX 4090", "rtx-4090", False),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop", False),
        ("NVIDIA RTX A2000 12GB", "rtx-a2000", False),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4", False),
        ("NVIDIA A100 80GB PCIe", "a100-pcie", False),
        ("Tesla T4", "t4", False),
        ("Orin (nvgpu)", "orin", True),
        ("NVIDIA Thor", "thor", True),
        ("NVIDIA GB10", "gb10", True),
    ],
)
def test_a_gpu_has_one_name(name, short, shared):
    assert chip_names.gpu(name) == short
    assert chip_names.shares_memory(name) is shared


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("12th Gen Intel(R) Core(TM) i7-12700E", "intel-i7-12700e"),
        ("Intel(R) N97", "intel-n97"),
        ("Intel(R) Atom(TM) x6425E Processor @ 2.00GHz", "intel-atom-x6425e"),
        ("Intel(R) Core(TM) Ultra 7 155H", "intel-core-ultra-7-155h"),
        ("AMD Ryzen 7 7840HS w/ Radeon 780M Graphics", "amd-ryzen-7-7840hs"),
        ("AMD Ryzen Embedded V1605B with Radeon Vega Gfx", "amd-ryzen-embedded-v1605b"),
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763"),
    ],
)
def test_a_processor_has_one_name(name, short):
    assert chip_names.cpu(name) == short


@pytest.mark.parametrize(
    ("compatible", "hints", "module"),
    [
        (("nvidia,p3768-0000+p3767-0005-super", "nvidia,tegra234"), (), "p3767-0005"),
        (
            ("nvidia,p3768-0000+p3767-0003", "nvidia,p3767-0003", "nvidia,tegra234"),
            (),
            "p3767-0003",
        ),
        (("nvidia,p4071-0000+p3834-0008", "nvidia,tegra264"), (), "p3834-0008"),
        (("nvidia,p2822-0000+p2888-0001", "nvidia,tegra194"), (), "p2888-0001"),
        (("nvidia,p3449-0000-b00+p3448-0000-b00", "nvidia,jetson-nano"), (), "p3448-0000"),
        (
            ("acme,carrier", "nvidia,tegra234"),
            ("TNSPEC 3767-301-0003-F.1-1-0-acme-j401-",),
            "p3767-0003",
        ),
        (
            ("acme,carrier", "nvidia,tegra234"),
            ("/dts/tegra234-p3767-0000-p3768-0000-a0.dts",),
            "p3767-0000",
        ),
        (("nvidia,tegra210",), ("p3448",), "p3448"),
        (("acme,carrier", "nvidia,tegra234"), ("p9999",), ""),
        (("acme,carrier", "nvidia,tegra234"), (), ""),
    ],
)
def test_the_module_is_named_by_firmware_and_never_by_a_model_text(compatible, hints, module):
    assert jetson.module(compatible, hints) == module


def test_jetpack_5_names_no_soc_that_is_none():
    names = ("nvidia,p3768-0000+p3767-0000", "nvidia,tegra23x", "nvidia,tegra234")
    assert jetson.soc(names) == "tegra234"
    assert jetson.soc(("raspberrypi,5-model-b", "brcm,bcm2712")) == ""


@pytest.mark.parametrize(
    ("l4t", "label"),
    [
        ("32.7.4", "4.6.4"),
        ("35.4.1", "5.1.2"),
        ("36.4.3", "6.2"),
        ("36.4.7", "6.2.1"),
        ("38.2.1", "7.0"),
        ("39.2.0", "7.2"),
        ("36.5.0", ""),
        ("99.1.0", ""),
        ("", ""),
    ],
)
def test_an_unknown_release_has_no_label_and_is_no_error(l4t, label):
    assert jetson.jetpack(l4t) == label


@pytest.mark.parametrize("release", [None, "garbage\n", ""])
def test_the_release_is_found_in_the_package_list_where_its_file_is_missing(boxes, release):
    found = described(boxes, NANO, **{"etc/nv_tegra_release": release})
    assert found.attributes["l4t"] == "36.4.3"


def test_a_release_that_nothing_names_is_left_out(boxes):
    gone = {
        "etc/nv_tegra_release": None,
        "var/lib/dpkg/status": None,
        "var/lib/nvpmodel/status": None,
    }
    found = described(boxes, NANO, **gone)
    assert not {"l4t", "jetpack", "power_mode"} & set(found.attributes)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"sys_vendor": "OnLogic", "product_name": "CL260"}, "OnLogic CL260"),
        (
            {
                "sys_vendor": "To Be Filled By O.E.M.",
                "product_name": "Default string",
                "board_vendor": "Advantech",
                "board_name": "AIMB-592",
            },
            "Advantech AIMB-592",
        ),
        ({"sys_vendor": "System manufacturer", "product_name": "System Product Name"}, ""),
        ({}, ""),
    ],
)
def test_placeholders_of_a_bios_name_no_product(fields, name):
    assert dmi.product(fields) == name


CPUINFO = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n"
    "model name\t: AMD EPYC\n"
)
CLOCKS = "sys/devices/system/clocksource/clocksource0/available_clocksource"


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"proc/cpuinfo": CPUINFO + "flags\t\t: fpu hypervisor\n"}, "unknown"),
        (
            {
                "proc/cpuinfo": CPUINFO + "flags\t\t: fpu hypervisor\n",
                CLOCKS: "tsc kvm-clock\n",
            },
            "kvm",
        ),
        ({"proc/cpuinfo": CPUINFO, "sys/class/dmi/id/sys_vendor": "QEMU\n"}, "qemu"),
        ({"proc/cpuinfo": CPUINFO, "sys/hypervisor/type": "xen\n"}, "xen"),
    ],
)
def test_a_virtual_machine_is_no_box_of_its_own_kind(tmp_path, told, kind):
    more = {"proc/meminfo": "MemTotal: 24684096 kB\n", "sys/devices/system/cpu/present": "0-1\n"}
    found = of_files(tmp_path, {**told, **more})
    assert found.hardware_class == "vm.x86.25-1.amd-epyc.24g.2c"
    assert found.attributes["virtual_machine"] == kind


def test_a_processor_under_a_device_tree_of_a_machine_emulator_is_virtual(tmp_path):
    told = {
        "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        "proc/device-tree/compatible": "linux,dummy-virt\0",
        "proc/meminfo": "MemTotal: 4000000 kB\n",
    }
    assert of_files(tmp_path, told).hardware_class == "vm.arm.neoverse-n1.4g.1c"


def test_rk3588_is_named_by_its_board_and_soc(tmp_path):
    told = {
        "proc/device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0",
        "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n",
        "proc/meminfo": "MemTotal: 16200000 kB\n",
        "sys/devices/system/cpu/present": "0-7\n",
        "sys/devices/system/cpu/online": "0-7\n",
        "sys/class/devfreq/fb000000.gpu/max_freq": "1000000000\n",
        "sys/class/devfreq/dmc/max_freq": "2112000000\n",
    }
    found = of_files(tmp_path, told)
    assert found.hardware_class == "arm.rk3588.radxa-rock-5b.16g.8c"
    assert found.performance_state == "cpu8,gpu@1000,emc@2112"


def test_dgx_spark_has_no_device_tree_and_a_gpu_of_the_board(tmp_path):
    cores = ["0xd85"] * 10 + ["0xd87"] * 10
    told = {
        "proc/cpuinfo": "\n".join(
            f"processor\t: {n}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"
            for n, part in enumerate(cores)
        ),
        "proc/meminfo": "MemTotal:       127600748 kB\n",
        "sys/class/dmi/id/sys_vendor": "NVIDIA\n",
        "sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark\n",
    }
    found = of_files(tmp_path, told, card("NVIDIA GB10"))
    assert found.hardware_class == "arm.cortex-x925+cortex-a725.nvidia-dgx-spark.128g.gb10.20c"


@pytest.mark.parametrize(
    ("name", "mib", "count", "part"),
    [
        ("NVIDIA GeForce RTX 3090", 24576, 1, "rtx-3090-24g"),
        ("NVIDIA GeForce RTX 3090", 24576, 2, "2xrtx-3090-24g"),
        ("NVIDIA A100-SXM4-40GB", 40536, 1, "a100-sxm4-40g"),
    ],
)
def test_a_card_is_a_part_of_the_class(boxes, name, mib, count, part):
    found = described(boxes, A2000, card(name, mib, count)).hardware_class
    assert part in found.split(".")


def test_a_card_without_nvml_is_named_by_its_pci_id_and_a_bmc_is_no_gpu(boxes):
    bmc = {
        "sys/bus/pci/devices/0000:03:00.0/vendor": "0x1a03\n",
        "sys/bus/pci/devices/0000:03:00.0/device": "0x2000\n",
        "sys/bus/pci/devices/0000:03:00.0/class": "0x030000\n",
    }
    found = described(boxes, A2000, NO_NVML, **bmc).hardware_class
    assert found.endswith(".32g.gpu-10de:2571.20c")


@pytest.mark.parametrize(
    ("sysctl", "name"),
    [
        (
            {
                "hw.model": "Mac14,3",
                "machdep.cpu.brand_string": "Apple M2",
                "hw.memsize": "17179869184",
                "hw.physicalcpu": "8",
            },
            "apple.m2.mac14-3.16g.8c",
        ),
        (
            {
                "hw.model": "Mac15,9",
                "machdep.cpu.brand_string": "Apple M3 Max",
                "hw.memsize": "51539607552",
                "hw.physicalcpu": "16",
            },
            "apple.m3-max.mac15-9.48g.16c",
        ),
        ({}, "apple"),
    ],
)
def test_a_mac_is_its_chip_and_its_model(sysctl, name):
    assert of_mac(sysctl) == name


def test_a_pi_is_named_by_the_memory_of_its_revision(boxes):
    cpuinfo = hardware_tree.entries(PI)["proc/cpuinfo"].replace("d04170", "e04171")
    assert ".16g." in described(boxes, PI, **{"proc/cpuinfo": cpuinfo}).hardware_class


@pytest.mark.parametrize(
    ("text", "count"), [("0-5", 6), ("0-3,8", 5), ("0", 1), ("0 1 2 3", 4), ("", 0), ("x", 0)]
)
def test_lists_of_processors_are_counted(text, count):
    assert cpu_info.count(text) == count


def test_neither_a_host_name_nor_a_serial_number_is_told(boxes):
    secret = {"proc/sys/kernel/hostname": "line4-press\n", "etc/machine-id": "0123abcd\n"}
    found = described(boxes, N97, **secret)
    assert len(found.attributes["hostname_hash"]) == 12
    texts = " ".join(found.attributes.values())
    assert not [word for word in ("line4", "0123abcd", "L00000", "00000000-0000") if word in texts]


def test_attributes_tell_what_is_worth_a_warning(boxes):
    found = described(boxes, NANO).attributes
    assert found["jetpack"] == "6.2"
    assert found["module"] == "Jetson Orin Nano 8GB (developer kit)"
    assert found["carrier"] == "p3768-0000"
    assert found["swap"].startswith("zram")
    assert described(boxes, PI).attributes["memory_cgroup"] == "none"
    assert described(boxes, A2000).attributes["nvidia_driver"] == "550.120"


def test_an_empty_box_is_unknown_and_no_error(tmp_path):
    found = of_files(tmp_path, {})
    assert (found.hardware_class, found.performance_state) == ("unknown", "")


def test_this_machine_has_a_class_and_memory():
    found = device.describe("here", {"site": "a"})
    assert found.hardware_class.count(".") >= 2
    assert int(found.attributes["memory_bytes"]) > 0
    assert found.labels == {"site": "a"}
    assert device.boot_id()
