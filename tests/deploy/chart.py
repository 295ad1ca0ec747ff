#!/usr/bin/env python3
"""Holds the chart to the manifests: with its own values it makes the objects of deploy/kubernetes, and each value changes
what it is for. Helm itself renders it."""

import re
import sys
from pathlib import Path

import helm_python
from ruamel.yaml import YAML

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
MANIFESTS = DEPLOY / "kubernetes"
CHART = DEPLOY / "helm" / "mcp-code-sandbox"
NAMESPACE = "mcp-code-sandbox"


def parsed(text):
    """The objects of a text."""
    return [value for value in YAML(typ="safe", pure=True).load_all(text) if value]


def named(objects):
    """Objects by kind and name."""
    found = {(value["kind"], value["metadata"]["name"]): value for value in objects}
    assert len(found) == len(objects), "two objects have the same name"
    return found


def manifests():
    """All that kustomize applies but for the namespace, which Helm is given."""
    (whole,) = parsed((MANIFESTS / "kustomization.yaml").read_text())
    objects = [value for name in whole["resources"] for value in parsed((MANIFESTS / name).read_text())]
    return named([value for value in objects if value["kind"] != "Namespace"])


def rendered(values=None, namespace=NAMESPACE):
    """What the chart makes of values, and the digest of its settings."""
    with helm_python.Chart.load(str(CHART)) as chart:
        texts = chart.render(values or {}, name="server", namespace=namespace)
    objects = named([value for text in texts.values() for value in parsed(text)])
    template = objects["Deployment", "server"]["spec"]["template"]["metadata"]
    return objects, template.pop("annotations")["settings"]


def check():
    """Raises what is wrong."""
    findings = helm_python.lint(str(CHART))["messages"]
    assert all(finding["severity"] < 2 for finding in findings), findings

    # Both kinds of tool leave it to the namespace of their own; only the account of the binding is named by it.
    made, digest = rendered()
    expected = manifests()
    assert made.keys() == expected.keys(), made.keys() ^ expected.keys()
    for key, value in expected.items():
        assert made[key] == value, f"{key} differs:\n{made[key]}\n{value}"

    changed, other = rendered(
        {
            "image": "registry.example/server:1",
            "settings": {"MAX_KERNELS": "0", "RUN_MEMORY": "512m"},
            "storage": {"size": "1Ti", "className": "nfs"},
            "quota": {"pods": "7"},
            "closed": ["203.0.113.7/32"],
        },
        namespace="elsewhere",
    )
    assert digest != other, "pods are not replaced when settings change"
    pod = changed["Deployment", "server"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/server:1"
    settings = changed["ConfigMap", "settings"]["data"]
    assert (settings["MAX_KERNELS"], settings["RUN_MEMORY"], settings["POOL_SIZE"]) == ("0", "512m", "1")
    claim = changed["PersistentVolumeClaim", "sandboxes"]["spec"]
    assert claim["storageClassName"] == "nfs" and claim["resources"]["requests"]["storage"] == "1Ti"
    hard = changed["ResourceQuota", "sandboxes"]["spec"]["hard"]
    assert (hard["pods"], hard["limits.memory"]) == ("7", "8704Mi")
    block = changed["NetworkPolicy", "sandbox-egress"]["spec"]["egress"][0]["to"][0]["ipBlock"]
    assert block["except"][-2:] == ["224.0.0.0/4", "203.0.113.7/32"]
    assert changed["RoleBinding", "server"]["subjects"][0]["namespace"] == "elsewhere"

    (chart,) = parsed((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.+)"$', (DEPLOY.parent / "Cargo.toml").read_text(), re.MULTILINE)[1]
    assert chart["version"] == chart["appVersion"] == version, f"Chart.yaml is not {version}"


if __name__ == "__main__":
    sys.exit(check())
