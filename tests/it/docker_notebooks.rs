//! Kernels for clients of Jupyter, on the real engine: what cells show, and how they end.

use serde_json::{Value, json};

use crate::dialects::jupyter::{Channels, Notebook, lines};
use crate::support::TestApp;

async fn notebook(settings: &[(&str, &str)]) -> Notebook {
    let all = [("DIALECTS", "jupyter")];
    let settings: Vec<_> = all.iter().chain(settings).copied().collect();
    Notebook::of(TestApp::on_docker_with(&settings).await).await
}

/// The messages of a cell.
async fn cell(channels: &mut Channels, code: &str) -> Vec<Value> {
    let content = json!({ "code": code });
    let id = channels.send("shell", "execute_request", &content).await;
    channels.until_idle(&id).await
}

/// The content of the first message of this type.
fn of<'a>(messages: &'a [Value], kind: &str) -> &'a Value {
    let found = messages.iter().find(|message| message["msg_type"] == kind);
    &found.unwrap_or_else(|| panic!("no {kind} in {}", lines(messages)))["content"]
}

#[tokio::test]
async fn docker_a_cell_shows_each_part_as_what_it_is() {
    let notebook = notebook(&[]).await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let code = "import sys\nfrom IPython.display import display, HTML\nprint('out')\nprint('err', file=sys.stderr)\n\
                display(HTML('<b>h</b>'))\nprint('between')\n{'a': [1]}";
    insta::assert_snapshot!(channels.run(code).await, @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"import sys\nfrom IPython.display import display, HTML\nprint('out')\nprint('err', file=sys.stderr)\ndisplay(HTML('<b>h</b>'))\nprint('between')\n{'a': [1]}","execution_count":1}
    iopub stream {"name":"stdout","text":"out\n"}
    iopub stream {"name":"stderr","text":"err\n"}
    iopub display_data {"data":{"text/html":"<b>h</b>","text/plain":"<b>h</b>"},"metadata":{},"transient":{}}
    iopub stream {"name":"stdout","text":"between\n"}
    iopub execute_result {"execution_count":1,"data":{"text/plain":"{'a': [1]}"},"metadata":{}}
    shell execute_reply {"status":"ok","execution_count":1,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    "#);
    let raised = "class Odd(Exception):\n    pass\n\ndef f():\n    raise Odd('e' * 3)\n\nf()";
    insta::assert_snapshot!(channels.run(raised).await, @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"class Odd(Exception):\n    pass\n\ndef f():\n    raise Odd('e' * 3)\n\nf()","execution_count":2}
    iopub error {"ename":"Odd","evalue":"eee","traceback":["---------------------------------------------------------------------------","Odd                                       Traceback (most recent call last)","Cell In[2], line 7","      4 def f():","      5     raise Odd('e' * 3)","----> 7 f()","","Cell In[2], line 5, in f()","      4 def f():","----> 5     raise Odd('e' * 3)","","Odd: eee"]}
    shell execute_reply {"ename":"Odd","evalue":"eee","traceback":["---------------------------------------------------------------------------","Odd                                       Traceback (most recent call last)","Cell In[2], line 7","      4 def f():","      5     raise Odd('e' * 3)","----> 7 f()","","Cell In[2], line 5, in f()","      4 def f():","----> 5     raise Odd('e' * 3)","","Odd: eee"],"status":"error","execution_count":2}
    iopub status {"execution_state":"idle"}
    "#);
    insta::assert_snapshot!(channels.run("1 +").await, @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"1 +","execution_count":3}
    iopub error {"ename":"SyntaxError","evalue":"invalid syntax (<ipython-input-3-953e01372b97>, line 1)","traceback":["  Cell In[3], line 1","    1 +","       ^","SyntaxError: invalid syntax"]}
    shell execute_reply {"ename":"SyntaxError","evalue":"invalid syntax (<ipython-input-3-953e01372b97>, line 1)","traceback":["  Cell In[3], line 1","    1 +","       ^","SyntaxError: invalid syntax"],"status":"error","execution_count":3}
    iopub status {"execution_state":"idle"}
    "#);
    // No mark is left for programs, and a subprocess is part of the output.
    let code = "import os\nprint('SANDBOX_RECORDS' in os.environ)\n!echo $SANDBOX_RECORDS.";
    insta::assert_snapshot!(channels.run(code).await, @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"import os\nprint('SANDBOX_RECORDS' in os.environ)\n!echo $SANDBOX_RECORDS.","execution_count":4}
    iopub stream {"name":"stdout","text":"False\n.\n"}
    shell execute_reply {"status":"ok","execution_count":4,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    "#);
    insta::assert_snapshot!(channels.run("import sys; sys.exit('gone')").await, @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"import sys; sys.exit('gone')","execution_count":5}
    iopub error {"ename":"SystemExit","evalue":"gone","traceback":["An exception has occurred, use %tb to see the full traceback.","","SystemExit: gone"]}
    shell execute_reply {"ename":"SystemExit","evalue":"gone","traceback":["An exception has occurred, use %tb to see the full traceback.","","SystemExit: gone"],"status":"error","execution_count":5}
    iopub status {"execution_state":"idle"}
    "#);
}

#[tokio::test]
async fn docker_figures_are_pictures_that_fit() {
    let notebook = notebook(&[("RUN_MEMORY", "1g")]).await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('after')\nplt.plot([3])\n0";
    let messages = cell(&mut channels, code).await;
    let kinds: Vec<_> = messages
        .iter()
        .map(|message| &message["msg_type"])
        .collect();
    insta::assert_snapshot!(json!(kinds), @r#"["status","execute_input","display_data","stream","execute_result","display_data","execute_reply","status"]"#);
    let figure = of(&messages, "display_data");
    assert!(
        figure["data"]["image/png"]
            .as_str()
            .unwrap()
            .starts_with("iVBOR")
    );
    assert!(
        figure["data"]["text/plain"]
            .as_str()
            .unwrap()
            .starts_with("<Figure")
    );
    // Three megapixels of noise.
    let code = "import numpy as np\nfrom PIL import Image\nImage.fromarray(np.random.randint(0, 255, (1500, 2000, 3), 'uint8'))";
    let messages = cell(&mut channels, code).await;
    let picture = &of(&messages, "execute_result")["data"]["image/png"];
    let length = picture.as_str().unwrap().len();
    assert!((20_000..700_000).contains(&length), "{length}");
}

#[tokio::test]
async fn docker_a_cell_that_is_stopped_says_why() {
    let settings = [
        ("RUN_TIMEOUT", "3s"),
        ("RUN_TIMEOUT_MAX", "3s"),
        ("RUN_MEMORY", "256m"),
    ];
    let notebook = notebook(&settings).await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let late = channels.run("x = 1\nimport time\ntime.sleep(60)").await;
    let kept = channels.run("x").await;
    let full = channels.run("y = bytearray(1 << 30); len(y)").await;
    let lost = channels.run("x").await;
    let told = [late, kept, full, lost].join("\n");
    let peak = regex::Regex::new(r"peak \d+ MiB").unwrap();
    insta::assert_snapshot!(peak.replace_all(&told, "peak N MiB"), @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"x = 1\nimport time\ntime.sleep(60)","execution_count":1}
    iopub error {"ename":"KeyboardInterrupt","evalue":"","traceback":["---------------------------------------------------------------------------","KeyboardInterrupt                         Traceback (most recent call last)","Cell In[1], line 3","      1 x = 1","      2 import time","----> 3 time.sleep(60)","","KeyboardInterrupt:"]}
    iopub stream {"name":"stderr","text":"[sandbox] The program was interrupted after its time limit of 3 s: make it faster. The kernel and its variables live on.\n"}
    shell execute_reply {"ename":"KeyboardInterrupt","evalue":"","traceback":["---------------------------------------------------------------------------","KeyboardInterrupt                         Traceback (most recent call last)","Cell In[1], line 3","      1 x = 1","      2 import time","----> 3 time.sleep(60)","","KeyboardInterrupt:"],"status":"error","execution_count":1}
    iopub status {"execution_state":"idle"}

    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"x","execution_count":2}
    iopub execute_result {"execution_count":2,"data":{"text/plain":"1"},"metadata":{}}
    shell execute_reply {"status":"ok","execution_count":2,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}

    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"y = bytearray(1 << 30); len(y)","execution_count":3}
    iopub error {"ename":"MemoryError","evalue":"The program was killed by the memory limit of 256 MiB (peak N MiB, with the libraries that the runner keeps loaded): work on smaller pieces, for example read files in chunks. Files in /tmp count as memory. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.","traceback":["MemoryError: The program was killed by the memory limit of 256 MiB (peak N MiB, with the libraries that the runner keeps loaded): work on smaller pieces, for example read files in chunks. Files in /tmp count as memory. The kernel has ended: its variables are lost, and the next stateful run begins with a new one."]}
    shell execute_reply {"ename":"MemoryError","evalue":"The program was killed by the memory limit of 256 MiB (peak N MiB, with the libraries that the runner keeps loaded): work on smaller pieces, for example read files in chunks. Files in /tmp count as memory. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.","traceback":["MemoryError: The program was killed by the memory limit of 256 MiB (peak N MiB, with the libraries that the runner keeps loaded): work on smaller pieces, for example read files in chunks. Files in /tmp count as memory. The kernel has ended: its variables are lost, and the next stateful run begins with a new one."],"status":"error","execution_count":3}
    iopub status {"execution_state":"idle"}

    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"x","execution_count":4}
    iopub error {"ename":"NameError","evalue":"name 'x' is not defined","traceback":["---------------------------------------------------------------------------","NameError                                 Traceback (most recent call last)","Cell In[1], line 1","----> 1 x","","NameError: name 'x' is not defined"]}
    shell execute_reply {"ename":"NameError","evalue":"name 'x' is not defined","traceback":["---------------------------------------------------------------------------","NameError                                 Traceback (most recent call last)","Cell In[1], line 1","----> 1 x","","NameError: name 'x' is not defined"],"status":"error","execution_count":4}
    iopub status {"execution_state":"idle"}
    "#);
    let messages = cell(&mut channels, "print('x' * 5_000_000)").await;
    let size = |message: &Value| message["content"]["text"].as_str().map_or(0, str::len);
    assert!(messages.iter().all(|message| size(message) <= 128 << 10));
    assert_eq!(messages.iter().map(size).sum::<usize>() / 100_000, 10);
}

#[tokio::test]
async fn docker_typescript_has_kernels_too() {
    let notebook = notebook(&[]).await;
    let made = json!({ "name": "typescript" });
    let made = notebook
        .ask(axum::http::Method::POST, "/api/kernels", &made)
        .await;
    let kernel = made.json()["id"].as_str().unwrap().to_owned();
    let mut channels = notebook.connect(&kernel).await;
    let shown = channels
        .run("const x: number = 6; console.log('out'); x * 7")
        .await;
    let failed = channels.run("throw new TypeError('odd')").await;
    insta::assert_snapshot!([shown, failed].join("\n"), @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"const x: number = 6; console.log('out'); x * 7","execution_count":1}
    iopub stream {"name":"stdout","text":"out\n"}
    iopub execute_result {"execution_count":1,"data":{"text/plain":"42"},"metadata":{}}
    shell execute_reply {"status":"ok","execution_count":1,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}

    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"throw new TypeError('odd')","execution_count":2}
    iopub error {"ename":"TypeError","evalue":"odd","traceback":["TypeError: odd","      at cell 2"]}
    shell execute_reply {"ename":"TypeError","evalue":"odd","traceback":["TypeError: odd","      at cell 2"],"status":"error","execution_count":2}
    iopub status {"execution_state":"idle"}
    "#);
}
