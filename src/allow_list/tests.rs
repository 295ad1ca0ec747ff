use proptest::prelude::*;

use super::*;

fn list(text: &str) -> AllowList {
    AllowList::new(text.split(',').map(|entry| entry.parse().unwrap())).unwrap()
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

#[test]
fn entries_are_names_with_ports() {
    let told = |text: &str| match text.parse::<Entry>() {
        Ok(entry) => format!("{} {}", entry.pattern, entry.port),
        Err(error) => error.to_string(),
    };
    let texts = [
        "API.example.org",
        "api.example.org.",
        "*.example.org",
        "bücher.example",
        "db.example.org:5432",
        "db",
        "*.example.org:80",
        "*.example.org:5432",
        "*",
        "*.",
        "",
        "a*.example.org",
        "*.*.example.org",
        "192.0.2.1",
        "192.0.2.0x1",
        "3221225985",
        "[2001:db8::1]",
        "2001:db8::1",
        "https://example.org",
        "example.org/path",
        "example.org:0",
        "example.org:+1",
        "example.org:99999",
        "-a.example.org",
        "a..example.org",
        "a\0.example.org",
    ];
    insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
    api.example.org 443
    api.example.org 443
    *.example.org 443
    xn--bcher-kva.example 443
    db.example.org 5432
    db 443
    *.example.org 80
    "*.example.org:5432" is no entry: many names can have the ports 443 and 80 only, where connections say whom they are for
    "*" is no entry: not all hosts can be listed at once
    "*." is no entry: not all hosts can be listed at once
    "" is no entry: not all hosts can be listed at once
    "a*.example.org" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots
    "*.*.example.org" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots
    "192.0.2.1" is no entry: hosts are listed by name, not by address
    "192.0.2.0x1" is no entry: hosts are listed by name, not by address
    "3221225985" is no entry: hosts are listed by name, not by address
    "[2001:db8::1]" is no entry: hosts are listed by name, not by address
    "2001:db8::1" is no entry: hosts are listed by name, not by address
    "https://example.org" is no entry: a port is a number from 1 to 65535
    "example.org/path" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots
    "example.org:0" is no entry: a port is a number from 1 to 65535
    "example.org:+1" is no entry: a port is a number from 1 to 65535
    "example.org:99999" is no entry: a port is a number from 1 to 65535
    "-a.example.org" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots
    "a..example.org" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots
    "a\0.example.org" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots
    "#);
}

#[test]
fn what_is_below_a_name_is_neither_the_name_nor_beside_it() {
    let list = list("*.example.org,api.example.net");
    for (host, is_listed) in [
        ("a.example.org", true),
        ("a.b.example.org", true),
        ("A.Example.ORG", true),
        ("example.org", false),
        ("badexample.org", false),
        ("a.example.org.evil.example", false),
        ("api.example.net", true),
        ("x.api.example.net", false),
        ("xapi.example.net", false),
    ] {
        assert_eq!(list.address(&name(host)).is_some(), is_listed, "{host}");
    }
}

#[test]
fn each_name_has_an_address_and_each_port_a_door() {
    let list = list("db.example.org:5432,api.example.org:80,api.example.org,*.example.org");
    let listeners = list.listeners();
    let listeners = listeners
        .iter()
        .map(|(address, entry)| format!("{address} {entry}"));
    insta::assert_snapshot!(listeners.collect::<Vec<_>>().join("\n"), @r"
    127.77.0.1:80 api.example.org:80
    127.77.0.1:443 api.example.org
    127.77.0.2:5432 db.example.org:5432
    127.77.0.3:443 *.example.org
    ");
    let address = |host| list.address(&name(host)).unwrap().to_string();
    assert_eq!(
        ["api.example.org", "db.example.org", "c.example.org"].map(address),
        ["127.77.0.1", "127.77.0.2", "127.77.0.3"]
    );
}

#[test]
fn a_run_can_ask_for_fewer() {
    let list =
        list("api.example.org,db.example.org:5432,*.example.net,both.example,both.example:80");
    let told = |hosts: &[&str]| {
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        match list.narrowed(&hosts) {
            Ok(narrowed) => narrowed.to_string(),
            Err(error) => error.to_string(),
        }
    };
    let asked: [&[&str]; 10] = [
        &["api.example.org"],
        &["db.example.org"],
        &["db.example.org:5432", "A.example.net"],
        &["*.example.net"],
        &["both.example"],
        &["both.example:80"],
        &["example.net"],
        &["api.example.org:80"],
        &["*.example.org"],
        &["192.0.2.1"],
    ];
    insta::assert_snapshot!(asked.map(told).join("\n"), @r#"
    api.example.org
    db.example.org:5432
    a.example.net, db.example.org:5432
    *.example.net
    both.example:80, both.example
    both.example:80
    "example.net" is not among the hosts that programs may reach: api.example.org, both.example:80, both.example, db.example.org:5432, *.example.net
    "api.example.org:80" is not among the hosts that programs may reach: api.example.org, both.example:80, both.example, db.example.org:5432, *.example.net
    "*.example.org" is not among the hosts that programs may reach: api.example.org, both.example:80, both.example, db.example.org:5432, *.example.net
    "192.0.2.1" is not among the hosts that programs may reach: api.example.org, both.example:80, both.example, db.example.org:5432, *.example.net
    "#);
}

/// Only what the operator has named may be in a private network, whatever a caller names.
#[test]
fn a_name_below_a_listed_one_is_not_named_by_asking_for_it() {
    let list = list("api.example.org,*.example.net");
    let hosts = ["api.example.org", "a.example.net"].map(str::to_owned);
    let narrowed = list.narrowed(&hosts).unwrap();
    let named = |list: &AllowList| {
        let named = list.entries().filter(|entry| list.names(&entry.pattern));
        named.map(|entry| entry.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(named(&list), ["api.example.org"]);
    assert_eq!(named(&narrowed), ["api.example.org"]);
}

#[test]
fn two_lists_are_one_in_which_what_is_written_in_either_is_written() {
    let named = |list: &AllowList| {
        let named = list.entries().filter(|entry| list.names(&entry.pattern));
        named.map(|entry| entry.to_string()).collect::<Vec<_>>()
    };
    let unnamed = list("api.example.org:80,files.example.org,*.example.net").unnamed();
    let both = unnamed.and(&list("api.example.org")).unwrap();
    assert_eq!(
        both.to_string(),
        "api.example.org:80, api.example.org, files.example.org, *.example.net"
    );
    assert_eq!(named(&both), ["api.example.org:80", "api.example.org"]);
    let narrowed = both.narrowed(&["files.example.org".to_owned()]).unwrap();
    assert_eq!(named(&narrowed), [""; 0]);
    let many = |letter: char| {
        let entries = (0..40).map(|index| format!("{letter}{index}.example").parse().unwrap());
        AllowList::new(entries).unwrap()
    };
    assert_eq!(many('a').and(&many('b')), Err(TooManyEntries));
}

#[test]
fn no_more_are_listed_than_can_be_handed_over() {
    let entries = |count: usize, port: u16| {
        (0..count).map(move |index| format!("h{index}.example:{port}").parse().unwrap())
    };
    assert!(AllowList::new(entries(64, 1)).is_ok());
    assert_eq!(AllowList::new(entries(65, 1)), Err(TooManyEntries));
    let ports = |count| (1..=count).flat_map(|port| entries(63, port));
    assert!(AllowList::new(ports(4)).is_ok());
    assert_eq!(AllowList::new(ports(5)), Err(TooManyEntries));
}

proptest! {
    #[test]
    fn any_text_is_an_entry_or_an_error(text in "\\PC{0,40}") {
        if let Ok(entry) = text.parse::<Entry>() {
            prop_assert_eq!(entry.to_string().parse::<Entry>(), Ok(entry));
        }
    }

    /// Whatever a list has, it lets through exactly what an entry is for.
    #[test]
    fn a_name_is_let_through_by_an_entry_only(host in "([a-c]{1,2}\\.){0,3}[a-c]{1,2}", entries in prop::collection::vec("(\\*\\.)?([a-c]{1,2}\\.){0,2}[a-c]{1,2}", 0..6)) {
        let host = name(&host);
        let entries: Vec<Entry> = entries.iter().map(|entry| entry.parse().unwrap()).collect();
        let is_listed = entries.iter().any(|entry| match &entry.pattern {
            Pattern::Exact(exact) => *exact == host,
            Pattern::Below(parent) => host.as_str().ends_with(&format!(".{parent}")),
        });
        let list = AllowList::new(entries).unwrap();
        prop_assert_eq!(list.address(&host).is_some(), is_listed);
        prop_assert_eq!(list.narrowed(&[host.to_string()]).is_ok(), is_listed);
    }
}
