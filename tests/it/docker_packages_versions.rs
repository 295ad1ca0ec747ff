//! Other versions of what the runner has, loaded ahead or not.

use serde_json::{Value, json};

use crate::docker_packages::{Host, install_for};

impl Host {
    /// What a program prints: warm, in a new kernel, and cold.
    async fn printed_everywhere(&self, code: &str) -> Vec<Value> {
        let mut printed = Vec::new();
        for (stateful, environment) in [
            (false, json!({})),
            (true, json!({})),
            (false, json!({ "PYTHONOPTIMIZE": "1" })),
        ] {
            let mut arguments = json!({
                "conversationId": "demo", "language": "python", "code": code, "environment": environment,
            });
            if stateful {
                arguments["stateful"] = json!(true);
                arguments["restart"] = json!(true);
            }
            let outcome = self.app.call("run_code", arguments).await;
            assert_eq!(outcome["status"], "ok", "{outcome}");
            printed.push(outcome["stdout"].clone());
        }
        printed
    }
}

#[tokio::test]
async fn preloaded_packages_can_be_replaced_by_another_version() {
    let host = Host::with(&[("POOL_SIZE", "python=1"), ("SANDBOX_REUSE", "conversation")]).await;
    host.app.parked("python", 1).await;
    // The conversation has a warm sandbox with the runner's version loaded.
    let own = host
        .printed_everywhere("import numpy, pandas; print(numpy.__name__, hasattr(numpy, 'array'))")
        .await;
    assert_eq!(own, ["numpy True\n"; 3]);
    let installed = host.install("python", json!(["numpy==1.0"])).await;
    insta::with_settings!({ filters => [(r"\d+(\.\d+)+ \(needs [^)]*\)", "X (needs Y)"), (r"(, \w+(-\w+)? X \(needs Y\))+", ", …")] }, {
        insta::assert_snapshot!(installed["message"].as_str().unwrap(), @"Installed numpy 1.0. Of the runner, … cannot be imported beside that: if need be, install other versions by name");
    });
    // Neither what has the other version loaded nor what does not go with it is used.
    let code = "import numpy, importlib.metadata as m\nprint(numpy.VALUE, m.version('numpy'))\n\
                try:\n    import pandas\nexcept ModuleNotFoundError as error: print(error.name, error)";
    let seen = host.printed_everywhere(code).await;
    insta::with_settings!({ filters => [(r"pandas \d+(\.\d+)+ needs [^\\]*", "pandas X needs Y")] }, {
        insta::assert_snapshot!(seen[0].as_str().unwrap(), @"
        mine 1.0 1.0
        pandas No module named 'pandas' that goes with the other versions: the runner's pandas X needs Y
        ");
    });
    assert_eq!(seen, [&seen[0]; 3].map(Value::clone));
    let arguments =
        json!({ "conversationId": "demo", "language": "python", "code": "import pandas" });
    let lacking = host.app.call("run_code", arguments).await;
    insta::assert_snapshot!(lacking["hint"].as_str().unwrap(), @"The runner has a pandas that does not go with what was installed: add pandas with install_packages, which finds one that does, or take the other version back with its argument remove.");
    // It is as before once it is taken back.
    let back = host.change("python", json!([]), json!(["numpy"])).await;
    assert_eq!(back["message"], "Removed numpy");
    let own = host
        .printed_everywhere("import numpy, pandas; print(numpy.__name__, hasattr(numpy, 'array'))")
        .await;
    assert_eq!(own, ["numpy True\n"; 3]);
    host.ends().await;
}

#[tokio::test]
async fn another_version_comes_along_with_what_needs_it() {
    let host = Host::new().await;
    let installed = host.install("python", json!(["tinyolder"])).await;
    insta::with_settings!({ filters => [(r"runner's \d+(\.\d+)+", "runner's X")] }, {
        insta::assert_snapshot!(installed["message"].as_str().unwrap(), @"Installed tinyolder 1.0, openpyxl 1.0. openpyxl 1.0 takes the place of the runner's X");
    });
    let code = "import tinyolder, openpyxl; print(tinyolder.VALUE, openpyxl.VALUE)";
    assert_eq!(host.run("python", code).await, "older mine 1.0\n");
    host.ends().await;
}

#[tokio::test]
async fn another_version_takes_the_place_of_the_runners() {
    let host = Host::with(&[("POOL_SIZE", "python=1"), ("SANDBOX_REUSE", "conversation")]).await;
    host.app.parked("python", 1).await;
    let show = "import openpyxl, importlib.metadata as m\nprint(m.version('openpyxl'), getattr(openpyxl, 'VALUE', 'the runner\\'s'))";
    let runners = host.run("python", show).await;
    assert!(runners.ends_with(" the runner's\n"), "{runners}");
    let installed = host
        .install("python", json!(["openpyxl==1.0", "tinyone"]))
        .await;
    assert_eq!(
        installed["message"],
        "Installed openpyxl 1.0, tinyone 2.0, tiny-dep 1.5"
    );
    let own = "1.0 mine 1.0\n";
    // Warm, in a kernel, and cold.
    for (stateful, environment) in [
        (false, json!({})),
        (true, json!({})),
        (false, json!({ "PYTHONOPTIMIZE": "1" })),
    ] {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": show, "stateful": stateful,
            "environment": environment,
        });
        let outcome = host.app.call("run_code", arguments).await;
        assert_eq!(outcome["stdout"], own, "{outcome}");
    }
    // No other conversation has it, and it stays when more is installed later.
    let other = json!({ "conversationId": "other", "language": "python", "code": show });
    assert_eq!(host.app.call("run_code", other).await["stdout"], runners);
    let later = host.install("python", json!(["tinyother"])).await;
    assert_eq!(later["message"], "Installed tinyother 1.0");
    assert_eq!(host.run("python", show).await, own);
    // The runner's own comes back, even if nothing else was installed.
    for (packages, message) in [
        (
            json!(["openpyxl==1.0"]),
            "Installed openpyxl 1.0".to_owned(),
        ),
        (
            json!(["openpyxl"]),
            format!(
                "openpyxl {} is part of the runner",
                runners.split(' ').next().unwrap()
            ),
        ),
    ] {
        let installed = install_for(&host.app, "back", "python", packages).await;
        assert_eq!(installed["message"], message);
    }
    let back = json!({ "conversationId": "back", "language": "python", "code": show });
    assert_eq!(host.app.call("run_code", back).await["stdout"], runners);
    // None of our modules, and nothing that starts by itself, comes from where programs can write.
    let plant = "for name in ['_sandbox_figures', '_sandbox_driver', 'sitecustomize', 'usercustomize', 'json', 'site']:\n    \
        open(f'/data/.packages/python/.replaced/{name}.py', 'w').write('open(\"/data/ran\", \"w\")')";
    host.run("python", plant).await;
    let code = "import json, os, matplotlib.pyplot as p; p.plot([1]); p.show(); print(os.path.exists('/data/ran'))";
    for environment in [json!({}), json!({ "PYTHONOPTIMIZE": "1" })] {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": code, "environment": environment,
        });
        let outcome = host.app.call("run_code", arguments).await;
        assert_eq!(outcome["stdout"], "False\n", "{outcome}");
    }
    host.ends().await;
}
