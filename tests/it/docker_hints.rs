//! Hints of the runner images, for programs that fail as models' programs do.

use serde_json::{Value, json};

use crate::support::TestApp;

/// Programs, and a part of the hint that each gets; nothing for one that needs none.
const PROGRAMS: [(&str, &str, &str); 23] = [
    (
        "python",
        "import requests\nrequests.get('https://example.com')",
        "network: true",
    ),
    (
        "python",
        "import pandas as pd\npd.read_csv('https://example.com/a.csv')",
        "network: true",
    ),
    (
        "python",
        "import cv2",
        "opencv-python-headless with install_packages",
    ),
    (
        "python",
        "import nothing_like_it",
        "nothing_like_it is not installed",
    ),
    ("python", "import tkinter", "There is no screen"),
    (
        "python",
        "import distutils.core",
        "Python 3.13 has no module distutils",
    ),
    ("python", "%matplotlib inline\nprint(1)", "stateful: true"),
    ("python", "display(1)", "stateful: true"),
    (
        "python",
        "import asyncio\nawait asyncio.sleep(0)",
        "asyncio.run(main())",
    ),
    ("python", "name = input('Name? ')", "the argument stdin"),
    (
        "python",
        "import pandas as pd\npd.DataFrame({'a': [1]}).append({'a': 2})",
        "pd.concat",
    ),
    (
        "python",
        "import numpy as np\nnp.trapz([1, 2])",
        "np.trapezoid",
    ),
    (
        "python",
        "import matplotlib.pyplot as plt\nplt.style.use('seaborn-whitegrid')",
        "seaborn-v0_8-whitegrid",
    ),
    (
        "python",
        "try:\n    import nothing_like_it\nexcept ImportError as error:\n    import sys\n    print(error, file=sys.stderr)",
        "",
    ),
    ("shell", "python3.9 x.py; python x.py", "language python"),
    ("shell", "python3 -c 'import pandas'", "language python"),
    ("shell", "wget https://example.com", "curl"),
    ("shell", "curl https://example.com", "network: true"),
    ("shell", "apt-get install jq", "Nothing can be installed"),
    (
        "typescript",
        "await fetch('https://example.com')",
        "network: true",
    ),
    (
        "typescript",
        "import x from 'better-sqlite3'\nconsole.log(x)",
        "bun:sqlite",
    ),
    (
        "typescript",
        "import x from '@scope/nothing'\nconsole.log(x)",
        "@scope/nothing is not installed",
    ),
    (
        "typescript",
        "document.querySelector('p')",
        "There is no browser",
    ),
];

async fn hint(app: &TestApp, language: &str, code: &str, more: Value) -> String {
    let mut arguments = json!({ "conversationId": "demo", "language": language, "code": code });
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    let outcome = app.call("run_code", arguments).await;
    format!(
        "{} {}",
        outcome["hint"].as_str().unwrap_or_default(),
        outcome["stderr"]
    )
}

#[tokio::test]
async fn failures_have_hints() {
    let app = TestApp::on_docker_with(&[("SANDBOX_REUSE", "conversation")]).await;
    for (language, code, wanted) in PROGRAMS {
        let outcome = app.run(language, code).await;
        let hint = outcome["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(wanted), "{code}\n{outcome}");
        assert!(!wanted.is_empty() || hint.is_empty(), "{code}\n{outcome}");
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn failures_in_cells_have_hints_for_cells() {
    let app = TestApp::on_docker().await;
    for (code, more, wanted) in [
        ("import nothing_like_it", json!({}), "install_packages"),
        ("input()", json!({}), "the argument stdin"),
        (
            "input(), input()",
            json!({ "stdin": "1" }),
            "more lines than stdin has",
        ),
        (
            "import scipy.integrate\nscipy.integrate.simps([1])",
            json!({}),
            "scipy.integrate.simpson",
        ),
    ] {
        let mut more = more;
        more["stateful"] = true.into();
        let hint = hint(&app, "python", code, more).await;
        assert!(hint.contains(wanted), "{code}\n{hint}");
    }
    app.assert_nothing_is_left().await;
}
