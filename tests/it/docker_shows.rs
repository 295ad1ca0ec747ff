//! What people's programs find in the images: letters for every script, something that becomes of what they show, and
//! their libraries.

use serde_json::{Value, json};

use crate::support::TestApp;

/// A program of the fixtures, run by a new conversation.
async fn ran(app: &TestApp, language: &str, code: &str) -> Value {
    let arguments = json!({ "language": language, "code": code, "timeoutSeconds": 60 });
    app.call("run_code", arguments).await
}

fn names(outcome: &Value) -> String {
    let files = outcome["files"].as_array().unwrap().iter();
    let names: Vec<_> = files.map(|file| file["name"].as_str().unwrap()).collect();
    names.join(" ")
}

macro_rules! program {
    ($name:literal) => {
        include_str!(concat!("../fixtures/programs/", $name))
    };
}

#[tokio::test]
async fn charts_have_letters_for_every_script_and_name_of_a_font() {
    let app = TestApp::on_docker().await;
    let drawn = ran(&app, "python", program!("scripts.py")).await;
    assert_eq!(
        (&drawn["status"], &drawn["output"], names(&drawn).as_str()),
        (&json!("ok"), &json!(""), "figure-1.png"),
        "{drawn}"
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn missing_glyphs_are_reported_once_at_the_programs_line() {
    let app = TestApp::on_docker().await;
    let code = "import matplotlib.pyplot as plt\nplt.rcParams['font.family'] = 'NoSuchFont'\nfor _ in range(3):\n    \
                plt.plot([1, 2])\n    plt.title('销售额')\n    plt.savefig('/tmp/a.png')\nplt.title('\\U00013000')\nplt.show()\n\
                plt.title('\\U00013000')";
    let drawn = ran(&app, "python", code).await;
    let told = drawn["stderr"].as_str().unwrap().lines().map(|line| {
        let end = line.find("missing from").unwrap_or(line.len());
        &line[..end]
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r#"
    findfont: Font family 'NoSuchFont' not found.
    /tmp/main.py:8: UserWarning: Glyph 77824 (\N{EGYPTIAN HIEROGLYPH A001}) 
      plt.show()
    UserWarning: Glyph 77824 (\N{EGYPTIAN HIEROGLYPH A001})
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn fonts_are_found_by_the_names_that_their_files_have_elsewhere() {
    let app = TestApp::on_docker().await;
    let opened = ran(&app, "python", program!("font_files.py")).await;
    insta::assert_snapshot!(opened["output"].as_str().unwrap(), @"
    arial.ttf is Liberation Sans Regular
    Arial.ttf is Liberation Sans Regular
    arialbd.ttf is Liberation Sans Bold
    times.ttf is Liberation Serif Regular
    cour.ttf is Liberation Mono Regular
    DejaVuSans.ttf is DejaVu Sans Book
    LiberationSans-Regular.ttf is Liberation Sans Regular
    /usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf is DejaVu Sans Bold
    simhei.ttf is WenQuanYi Micro Hei Regular
    msyh.ttc is WenQuanYi Micro Hei Regular
    malgun.ttf is WenQuanYi Micro Hei Regular
    NotoColorEmoji.ttf is Symbola Regular
    True True
    10
    ");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_font_that_a_program_brings_is_taken_before_what_stands_for_it() {
    let app = TestApp::on_docker().await;
    let code = "import dataclasses, shutil\nfrom matplotlib import font_manager as fonts\nlisted = fonts.fontManager.ttflist\n\
                def find(size):\n    return fonts.findfont(fonts.FontProperties(family='Arial', size=size))\n\
                print(find(5))\nserif = next(font for font in listed\n    if (font.name, font.weight, font.style) == ('DejaVu Serif', 400, 'normal'))\n\
                shutil.copy(serif.fname, 'own.ttf')\n\
                listed.append(dataclasses.replace(serif, name='Arial', fname='/data/own.ttf'))\nprint(find(6))";
    let found = ran(&app, "python", code).await;
    insta::assert_snapshot!(found["output"].as_str().unwrap(), @"
    /usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf
    /data/own.ttf
    ");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn documents_have_letters_that_the_standard_fonts_of_pdf_lack() {
    let app = TestApp::on_docker().await;
    let written = ran(&app, "python", program!("pdf.py")).await;
    insta::assert_snapshot!(written["output"].as_str().unwrap(), @r#"
    canvas.pdf ['Größe', '€', '世界', 'Русский', '한국어', 'हिन्दी'] ['/Courier', '/Helvetica', '/Times-Bold', 'LiberationMono-Image', 'LiberationSerif-Bold-Image', 'NotoSansDevanagari-Regular-Image', 'WenQuanYiMicroHei-Image-0']
    canvas.pdf ['二', 'Ω'] ['/Courier', '/Helvetica', '/Times-Bold', 'LiberationMono-Image', 'LiberationSerif-Bold-Image', 'NotoSansDevanagari-Regular-Image', 'WenQuanYiMicroHei-Image-0']
    both.pdf ['页', 'Ж', '页', 'Ж', '\x00', 'Ж'] ['/Helvetica', 'LiberationSans', 'LiberationSans-Image', 'WenQuanYiMicroHei-0', 'WenQuanYiMicroHei-Image-0']
    latin.pdf ['Größe', '€'] ['/Helvetica']
    story.pdf ['标题', 'Title', 'Text', '粗体', 'bold', 'курсив'] ['/Helvetica', '/Helvetica-Bold', 'LiberationSans-Italic-Image', 'WenQuanYiMicroHei-Image-0']
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn shown_figures_become_files() {
    let app = TestApp::on_docker().await;
    let shown = ran(&app, "python", program!("shows.py")).await;
    let output = shown["output"].as_str().unwrap();
    let output: Vec<_> = output.split(" at 0x").collect();
    insta::assert_snapshot!(format!("{}\n{}", output[0], names(&shown)), @"
       city  n
    0    北京  3
    1  Oslo  4
    <pandas.io.formats.style.Styler
    image-1.png image-2.png image-3.png page-1.html page-2.html page-3.html page-4.html page-5.html page-6.html page-7.html
    ");
    for file in shown["files"].as_array().unwrap() {
        let content = app.download(&file["url"]).await;
        let text = String::from_utf8_lossy(&content.body);
        if file["mimeType"] == "text/html" {
            assert!(!text.contains("<script src="), "{file}");
            assert!(!text.contains("<link rel=\"stylesheet\""), "{file}");
        }
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_cell_gives_rich_values_as_files() {
    let app = TestApp::on_docker().await;
    let mut told = Vec::new();
    for code in [
        "import pandas, plotly.express, altair, bokeh.plotting, PIL.Image\nframe = pandas.DataFrame({'x': [1], 'y': [2]})\nframe",
        "frame.style.format('<{}>')",
        "plotly.express.line(frame, x='x', y='y')",
        "altair.Chart(frame).mark_bar().encode(x='x', y='y')",
        "figure = bokeh.plotting.figure(); figure.line([1], [1]); bokeh.plotting.show(figure)",
        "PIL.Image.new('1', (8, 8)).show()",
        "import sklearn.linear_model\nsklearn.linear_model.LinearRegression().fit([[1], [2]], [1, 2])",
        "%%capture kept\nplotly.express.line(frame, x='x', y='y').show()",
        "kept.outputs[0]",
        "import matplotlib.pyplot as plt\nplt.title('\\U00013000')\nplt.savefig('/tmp/a.png')\nplt.close()",
    ] {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "stateful": true, "code": code, "timeoutSeconds": 60,
        });
        let outcome = app.call("run_code", arguments).await;
        let output = outcome["output"].as_str().unwrap();
        let end = output.find(" missing from").or(output.find(" at 0x"));
        let output = &output[..end.unwrap_or(output.len())];
        let files = outcome["files"].as_array().unwrap().iter();
        let new: Vec<_> = files
            .filter(|file| file["new"] == true)
            .map(|file| file["name"].as_str().unwrap())
            .collect();
        told.push(format!("{output}{}", new.join(" ")));
    }
    insta::assert_snapshot!(told.join("\n---\n"), @r#"
       x  y
    0  1  2
    page-1.html
    ---
    <pandas.io.formats.style.Stylerpage-2.html
    ---
    page-3.html
    ---
    image-1.png
    ---
    page-4.html
    ---
    image-2.png
    ---
    LinearRegression()
    page-5.html
    ---

    ---
    <IPython.utils.capture.RichOutputpage-6.html
    ---
    <ipython-input-10-aea8a3d8d177>:3: UserWarning: Glyph 77824 (\N{EGYPTIAN HIEROGLYPH A001})
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_libraries_of_python_can_be_used() {
    let app = TestApp::on_docker().await;
    let mut told = String::new();
    for group in [
        "office",
        "documents",
        "texts",
        "numbers",
        "pictures",
        "networks",
        "tests",
    ] {
        let code = format!("{}\nshow({group})", program!("libraries.py"));
        let outcome = ran(&app, "python", &code).await;
        told += outcome["output"].as_str().unwrap();
    }
    let told = told.replace(|letter: char| letter.is_ascii_digit(), "9");
    insta::assert_snapshot!(told, @r#"
    ["Größe 北京", "slide", 99, "xlrd"]
    ["Привет", "Привет", "<h9>x</h9>", [999, 999]]
    ["ab", "ab", 9.9, "9", "&lt;", "-\n9\n-", 9, {"a": [9, 9]}, "9", "html9lib"]
    [9.9, 9.9, "x**9/9", 9, 9.9, "Europe/Berlin"]
    [[9, 9, 9, 9], [99, 99]]
    [["ClientConnectorError", "ConnectError", "OperationalError"], 99]
    .
    9 passed in 9.99s
    9
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_packages_of_typescript_can_be_used() {
    let app = TestApp::on_docker().await;
    let outcome = ran(&app, "typescript", program!("libraries.ts")).await;
    insta::assert_snapshot!(format!("{}{}", outcome["output"].as_str().unwrap(), names(&outcome)), @r#"
    Arial 1
    SimHei 1
    sans-serif 1
    NoSuchFont 1
    [ empty item, "Größe", 42 ] Größe,42
    true true 1
    20
    ab 2 <h1>x</h1>
    1 Mar 02 2
    8 cm {
      a: 1,
    } {
      a: [ 1 ],
    }
    21 36 ECONNREFUSED sandbox
    chart.png
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_tools_of_the_shell_can_be_used() {
    let app = TestApp::on_docker().await;
    let code = "cd /tmp; git init -q r && git -C r commit -q --allow-empty -m first && git -C r log --format=%s%n%an\n\
                echo '{\"a\": [1]}' | tee a.json | yq -y .; file -b a.json; tree --noreport r/.git/refs; printf 'a b\\nccc d\\n' | column -t\n\
                printf AB | xxd -p; less a.json; zstd -q a.json && zstd -dcq a.json.zst; sqlite3 :memory: 'select 6 * 7'; pdftotext -v 2>&1 | head -n 1 | cut -d ' ' -f 1";
    let outcome = ran(&app, "shell", code).await;
    insta::assert_snapshot!(outcome["output"].as_str().unwrap(), @r#"
    first
    sandbox
    a:
      - 1
    JSON text data
    r/.git/refs
    ├── heads
    │   └── main
    └── tags
    a    b
    ccc  d
    4142
    {"a": [1]}
    {"a": [1]}
    42
    pdftotext
    "#);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn the_user_has_a_name_and_the_usual_locales() {
    let app = TestApp::on_docker().await;
    let mut told = String::new();
    for (language, code) in [
        (
            "shell",
            "whoami; id -un; ls -ld /data | cut -d ' ' -f 3; LC_ALL=de_DE.UTF-8 date -d 2026-03-01 +%B",
        ),
        (
            "typescript",
            "import os from 'os'; console.log(os.userInfo().username)",
        ),
        (
            "python",
            "import getpass, locale, os, pathlib, pwd, time\nprint(getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name)\n\
             pathlib.Path('x').touch(); print(pathlib.Path('x').owner())\n\
             locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')\n\
             print(locale.format_string('%.2f', 1234567.89, grouping=True), time.strftime('%B', time.gmtime(1772366400)))\n\
             for name in 'en_US en_GB fr_FR es_ES it_IT pt_BR ja_JP zh_CN ko_KR nl_NL pl_PL ru_RU tr_TR'.split(): locale.setlocale(locale.LC_ALL, name + '.UTF-8')",
        ),
    ] {
        told += ran(&app, language, code).await["output"].as_str().unwrap();
    }
    insta::assert_snapshot!(told, @"
    sandbox
    sandbox
    sandbox
    März
    sandbox
    sandbox sandbox
    sandbox
    1.234.567,89 März
    ");
    app.assert_nothing_is_left().await;
}
