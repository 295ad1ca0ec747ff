"""Prints the addresses that pip takes packages from when the server's settings name none, as one JSON array: what the
image configures, or else pip's own. Nothing is fetched."""

import json

from pip._internal.commands import create_command
from pip._internal.models.index import PyPI as own

options, _ = create_command("install").parse_args([])
addresses = [options.index_url, *options.extra_index_urls, *options.find_links]
if own.simple_url in addresses:
    # Its files are on another host.
    addresses.append(f"https://{own.file_storage_domain}/")
print(json.dumps(addresses))
