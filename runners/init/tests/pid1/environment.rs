//! What PID 1 is told by its own environment, of which programs see nothing.

use crate::support::{Sandbox, again, once, parked_after};

/// Prints soft and hard limits, and what there is of PID 1's variables.
const LOOK: &str = r"
import os, resource
for name in 'NOFILE', 'FSIZE', 'CORE', 'NPROC':
    print(name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))
print([name for name in os.environ if name.startswith(('SANDBOX_', 'KUBERNETES_'))])
";

const TOLD: &str = "export SANDBOX_LIMITS=nofile=400,fsize=1000000,core=1,nproc=50 SANDBOX_NO_NETWORK=require\n\
    export KUBERNETES_PORT=tcp://10.0.0.1:443";

#[test]
fn limits_hold_for_programs_which_see_no_variable_of_pid_1() {
    // A quarter of the descriptors, as always.
    let said = "NOFILE 100 100\nFSIZE 1000000 1000000\nCORE 0 0\nNPROC 50 50\n[]\n";
    let mut plain = Sandbox::with_setup(TOLD, &["python3", "-"]);
    plain.run_and_clean(again(LOOK)).exits(0).prints(said);
    plain.run(once(LOOK)).exits(0).prints(said);
    let mut warm = parked_after(TOLD, include_str!("drivers/fork.py"));
    warm.run_and_clean(again(LOOK)).exits(0).prints(said);
}

#[test]
fn a_call_may_have_variables_of_these_names() {
    let mut run = once("echo $KUBERNETES_PORT");
    run.env
        .insert("KUBERNETES_PORT".to_owned(), "mine".to_owned());
    let mut sandbox = Sandbox::with_setup(TOLD, &["sh"]);
    sandbox.run(run).exits(0).prints("mine\n");
}

#[test]
fn a_mistake_in_the_limits_ends_pid_1_before_it_begins() {
    for mistake in ["nofile=many", "nofile=1,nofile=2", "memory=1"] {
        let setup = format!("export SANDBOX_LIMITS={mistake}");
        let mut sandbox = Sandbox::with_setup(&setup, &["sh"]);
        assert_eq!(sandbox.exit_code(), 73, "{mistake}");
    }
}
