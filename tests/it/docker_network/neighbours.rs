//! What a program can learn of others on the network from the engine's own resolver, which tells a container who its
//! neighbours are.

use std::fs;

use crate::support::TestApp;
use crate::support::wait::within;

use super::world::{PRIVATE, World, in_the_world, install_rules, resolve, udp};
use super::{BEGINNING, DNS, LISTEN, RULES, call, checked};

/// Asks the engine's resolver for the names of its own address, of those around it and of `TARGETS`, and says which
/// have one.
const ASK: &str = r#"
import ipaddress, os, socket, struct

def ask(address):
    name = b"".join(bytes([len(part)]) + part.encode() for part in [*reversed(address.split(".")), "in-addr", "arpa"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.settimeout(5)
        # One question: a pointer, of the internet.
        resolver.sendto(struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name + struct.pack(">x2H", 12, 1), ("127.0.0.11", 53))
        answers = struct.unpack(">6H", resolver.recv(512)[:12])[3]
    return answers

own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(("10.99.0.2", 53))
own = own.getsockname()[0]
around = {str(address) for address in ipaddress.ip_network(own + "/27", strict=False)}
for address in sorted(around | set(os.environ["TARGETS"].split())):
    if ask(address):
        print("own" if address == own else "other")
"#;

pub(super) async fn a_program_learns_nothing_of_another_from_the_resolver() {
    let _world = World::new();
    install_rules();
    let app = TestApp::on_docker_with(&[RULES, ("RUN_DNS", PRIVATE)]).await;
    assert_eq!(checked(&app).await, Ok(()));
    let resolver = in_the_world(|| udp(PRIVATE, DNS));
    let data = app.workspace("neighbour");
    let ask = async {
        let address = within(BEGINNING, "the neighbour is there", async || {
            fs::read_to_string(data.join("address")).ok()
        })
        .await;
        let told = call(&app, "demo", "python", ASK, &address).await;
        fs::write(data.join("stop"), "").unwrap();
        told
    };
    let neighbour = call(&app, "neighbour", "python", LISTEN, "");
    let (neighbour, told) = tokio::select! {
        results = async { tokio::join!(neighbour, ask) } => results,
        () = resolve(resolver) => unreachable!(),
    };
    assert_eq!(neighbour["status"], "ok", "{neighbour}");
    // That it has a name itself shows that the resolver was asked.
    assert_eq!(told["stdout"], "own\n", "{told}");
    app.assert_nothing_is_left().await;
}
