//! Kernels that try to go on between their cells.

use sandbox_init::Status;

use crate::support::{Sandbox, cell};

const FORK: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/fork.py")
);

/// A kernel that has run one cell.
fn kernel() -> Sandbox {
    let mut sandbox = Sandbox::start(&["false"]);
    sandbox.park(&["python3", "-c", FORK], &[]).unwrap();
    assert!(sandbox.cell(cell("import os")).exits(0).end.lives);
    sandbox
}

#[test]
fn a_kernel_that_cannot_be_stopped_is_killed_and_told_why() {
    let mut sandbox = kernel();
    // Whoever starts a program by vfork hears no signal until the child has begun it, and this one never does.
    let stuck = "
os.mkfifo('never')
child = os.fork()
if child == 0:
    os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'never', os.O_RDONLY, 0)])
while ') D ' not in open(f'/proc/{child}/stat').read(): pass
";
    let outcome = sandbox.cell(cell(stuck));
    assert_eq!(outcome.end.status, Status::Signal(9));
    assert!(!outcome.end.lives);
    assert_eq!(
        outcome.stderr,
        "sandbox-init: processes cannot be stopped\n"
    );
    assert_eq!(sandbox.exit_code(), 0);
}
