//! Names of hosts, origins, packages and volumes, in the form in which they are compared. Pure.

use std::net::Ipv6Addr;

use url::{Host, Origin, Url};

/// The entry that stands for all.
const ANY: &str = "*";
/// The end of an origin that means any port.
const ANY_PORT: &str = ":*";
/// What browsers send for pages from files, and for sandboxed pages.
const OPAQUE: &str = "null";

/// A volume's name as engines take it: a path would be mounted as a directory of the host.
pub(super) fn volume(name: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    (starts_well && name.len() > 1 && name.bytes().all(is_plain)).then(|| name.to_owned())
}

/// A host's name with or without a port, or `*`. The brackets of an IPv6 address matter only before a port.
pub(super) fn host(entry: &str) -> Option<String> {
    if entry == ANY {
        return Some(entry.to_owned());
    }
    if let Ok(address) = entry.parse::<Ipv6Addr>() {
        return Some(address.to_string());
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse::<u16>().ok()?)),
        _ => (entry, None),
    };
    let name = plain(name).and_then(|name| Host::parse(name).ok())?;
    Some(match (name, port) {
        (name, Some(port)) => format!("{name}:{port}"),
        (Host::Ipv6(address), None) => address.to_string(),
        (name, None) => name.to_string(),
    })
}

/// The origin of pages as browsers send it, with `:*` in place of the port for any port, or `*`.
pub(super) fn origin(entry: &str) -> Option<String> {
    if [ANY, OPAQUE].contains(&entry) {
        return Some(entry.to_owned());
    }
    let (address, end) = match entry.strip_suffix(ANY_PORT) {
        Some(address) => (address, ANY_PORT),
        None => (entry, ""),
    };
    let url = Url::parse(plain(address)?).ok()?;
    let is_whole = address.contains("://")
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_whole || !end.is_empty() && url.port().is_some() {
        return None;
    }
    let origin = match url.origin() {
        origin @ Origin::Tuple(..) => origin.ascii_serialization(),
        // The scheme is one that only some programs know, such as that of browser extensions.
        Origin::Opaque(_) => {
            let port = url.port().map(|port| format!(":{port}"));
            let host = url.host_str().filter(|host| !host.is_empty())?;
            format!("{}://{host}{}", url.scheme(), port.unwrap_or_default())
        }
    };
    Some(origin + end)
}

/// The name of a package of any index, without a version.
pub(super) fn package(entry: &str) -> Option<String> {
    let (scope, name) = match entry.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/')?,
        None => ("scope", entry),
    };
    let fits = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
    };
    (fits(scope) && fits(name)).then(|| entry.to_owned())
}

/// Refuses a name with `*`: names may contain it, but it would stand for nothing.
fn plain(name: &str) -> Option<&str> {
    (!name.contains('*')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each entry and what becomes of it.
    fn all(entries: &[&str], parse: impl Fn(&str) -> Option<String>) -> String {
        let line = |entry: &&str| format!("{entry} = {}", parse(entry).unwrap_or("-".to_owned()));
        entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn hosts_are_names_or_addresses_with_or_without_a_port() {
        let entries = [
            "*",
            "Box.example",
            "box.example:8080",
            "my_server",
            "bücher.example",
            "10.0.0.1:80",
            "fd00::1",
            "[FD00::1]",
            "[fd00:0::1]:8080",
            "https://box.example",
            "box.example/",
            "a b",
            "*.example",
            "box:*",
            "box:",
            "box:99999",
            "a:b:c",
            "[fd00::1",
            "me@box.example",
            "",
        ];
        insta::assert_snapshot!(all(&entries, host), @"
        * = *
        Box.example = box.example
        box.example:8080 = box.example:8080
        my_server = my_server
        bücher.example = xn--bcher-kva.example
        10.0.0.1:80 = 10.0.0.1:80
        fd00::1 = fd00::1
        [FD00::1] = fd00::1
        [fd00:0::1]:8080 = [fd00::1]:8080
        https://box.example = -
        box.example/ = -
        a b = -
        *.example = -
        box:* = -
        box: = -
        box:99999 = -
        a:b:c = -
        [fd00::1 = -
        me@box.example = -
         = -
        ");
    }

    #[test]
    fn origins_are_as_browsers_send_them() {
        let entries = [
            "*",
            "null",
            "https://Box.example/",
            "https://box.example:443",
            "http://box.example:8080",
            "http://localhost:*",
            "http://[::1]:*",
            "https://bücher.example",
            "chrome-extension://abcdef",
            "app://obsidian.md:1",
            "box.example",
            "box.example:8080",
            "localhost:*",
            "https://box.example/page",
            "https://*.example",
            "https://box:8080:*",
            "https://me@box.example",
            "https://a b",
            "https://",
            "file:///x",
            "mailto:me",
            "",
        ];
        insta::assert_snapshot!(all(&entries, origin), @"
        * = *
        null = null
        https://Box.example/ = https://box.example
        https://box.example:443 = https://box.example
        http://box.example:8080 = http://box.example:8080
        http://localhost:* = http://localhost:*
        http://[::1]:* = http://[::1]:*
        https://bücher.example = https://xn--bcher-kva.example
        chrome-extension://abcdef = chrome-extension://abcdef
        app://obsidian.md:1 = app://obsidian.md:1
        box.example = -
        box.example:8080 = -
        localhost:* = -
        https://box.example/page = -
        https://*.example = -
        https://box:8080:* = -
        https://me@box.example = -
        https://a b = -
        https:// = -
        file:///x = -
        mailto:me = -
         = -
        ");
    }

    #[test]
    fn packages_are_names_without_versions() {
        let entries = [
            "requests",
            "Flask.Login",
            "zope.interface",
            "@types/node",
            "left-pad",
            "_",
            "requests urllib3",
            "requests==2.*",
            "requests>=2",
            "requests[socks]",
            "left-pad@1",
            "@types",
            "@/x",
            "-r",
            "*",
        ];
        insta::assert_snapshot!(all(&entries, package), @"
        requests = requests
        Flask.Login = Flask.Login
        zope.interface = zope.interface
        @types/node = @types/node
        left-pad = left-pad
        _ = _
        requests urllib3 = -
        requests==2.* = -
        requests>=2 = -
        requests[socks] = -
        left-pad@1 = -
        @types = -
        @/x = -
        -r = -
        * = -
        ");
    }
}
