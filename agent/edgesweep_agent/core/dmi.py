"""SMBIOS strings of a board, without what vendors forget to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS = (
    "sys_vendor",
    "product_name",
    "board_vendor",
    "board_name",
    "bios_vendor",
    "bios_version",
    "chassis_type",
)
"""What anyone may read and what tells boards apart; serials and UUIDs are left alone."""

_PLACEHOLDERS = frozenset(
    {
        "",
        "0",
        "123456789",
        "base board manufacturer",
        "base board product name",
        "default string",
        "empty",
        "n/a",
        "none",
        "not applicable",
        "not specified",
        "o.e.m",
        "oem",
        "system manufacturer",
        "system product name",
        "system version",
        "to be filled by o.e.m",
        "to be filled by oem",
        "type1productconfigid",
        "undefined",
        "unknown",
        "x.x",
    }
)
_HYPERVISORS = {
    "amazon ec2": "ec2",
    "google": "google",
    "innotek": "virtualbox",
    "parallels": "parallels",
    "qemu": "qemu",
    "vmware": "vmware",
    "xen": "xen",
}


def told(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields that say something."""
    return {key: text.strip() for key, text in fields.items() if not _is_placeholder(text)}


def product(fields: Mapping[str, str]) -> str:
    """Vendor and product, or vendor and board where the product is a placeholder; else ""."""
    known = told(fields)
    for maker, name in (("sys_vendor", "product_name"), ("board_vendor", "board_name")):
        if name in known:
            vendor, model = known.get(maker, ""), known[name]
            return model if model.lower().startswith(vendor.lower()) else f"{vendor} {model}"
    return ""


def hypervisor(fields: Mapping[str, str]) -> str:
    """Whose virtual machine this is by its own SMBIOS; "" for a real board, as far as known."""
    vendor = fields.get("sys_vendor", "").lower()
    if vendor.startswith("microsoft") and "virtual" in fields.get("product_name", "").lower():
        return "hyper-v"
    return next((name for word, name in _HYPERVISORS.items() if vendor.startswith(word)), "")


def _is_placeholder(text: str) -> bool:
    return text.strip().lower().rstrip(".") in _PLACEHOLDERS
