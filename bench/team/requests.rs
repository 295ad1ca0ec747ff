//! What a member of the team asks for, and how often.

use serde_json::{Value, json};

/// One kind of request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: &'static str,
    /// How often of a hundred.
    pub(crate) share: u32,
    pub(crate) language: &'static str,
    pub(crate) code: &'static str,
    /// The file that comes first.
    pub(crate) upload: Option<&'static str>,
    /// The status of its answer, and what is in its output.
    pub(crate) status: &'static str,
    pub(crate) prints: &'static str,
}

/// The seconds that a program which never stops has.
const LIMIT: u64 = 5;

const PRINT: Request = Request {
    name: "print",
    share: 38,
    language: "python",
    // Each adds a letter to a file, so that what is lost shows.
    code: "with open('diary', 'a') as file: file.write('x')\nprint(6 * 7)",
    upload: None,
    status: "ok",
    prints: "42",
};

pub(crate) const REQUESTS: &[Request] = &[
    PRINT,
    Request {
        name: "pandas",
        share: 20,
        code: "import pandas as pd\ndf = pd.DataFrame({'a': range(1000), 'b': list('xy') * 500})\n\
               print(df.groupby('b').a.describe())",
        prints: "mean",
        ..PRINT
    },
    Request {
        name: "chart",
        share: 10,
        code: "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.savefig('chart.png')\nprint('drawn')",
        prints: "drawn",
        ..PRINT
    },
    Request {
        name: "upload",
        share: 10,
        code: "import csv\nprint(sum(int(row['sold']) for row in csv.DictReader(open('sales.csv'))))",
        upload: Some("month,sold\n1,20\n2,22\n"),
        prints: "42",
        ..PRINT
    },
    Request {
        name: "shell",
        share: 10,
        language: "shell",
        code: "ls -la | wc -l",
        prints: "\n",
        ..PRINT
    },
    Request {
        name: "error",
        share: 10,
        code: "print(1 / 0)",
        status: "error",
        prints: "",
        ..PRINT
    },
    Request {
        name: "runaway",
        share: 2,
        code: "while True: pass",
        status: "timeout",
        prints: "",
        ..PRINT
    },
];

impl Request {
    /// One of them, by chance.
    pub(crate) fn any(random: &mut fastrand::Rng) -> &'static Self {
        let all: u32 = REQUESTS.iter().map(|request| request.share).sum();
        let mut place = random.u32(..all);
        let found = REQUESTS.iter().find(|request| {
            let is_here = place < request.share;
            place = place.saturating_sub(request.share);
            is_here
        });
        found.unwrap()
    }

    /// Whether it adds to the file that must not be lost.
    pub(crate) fn is_noted(&self) -> bool {
        self.name == PRINT.name
    }

    pub(crate) fn arguments(&self, conversation: &str) -> Value {
        let mut arguments =
            json!({ "conversationId": conversation, "language": self.language, "code": self.code });
        if self.status == "timeout" {
            arguments["timeoutSeconds"] = LIMIT.into();
        }
        arguments
    }
}
