//! Clients of the usual languages' own. Those of the others are in `tests/languages`.

use std::fmt::Write as _;

use serde_json::json;

use super::world::World;
use super::{call, hosts, server};

/// Programs that say what `plain.test` answers, and then whether they reach a host that is not listed.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "python",
        "import aiohttp, asyncio, httpx, requests\n\
         async def main():\n    \
             async with aiohttp.ClientSession() as session, session.get('http://plain.test/aiohttp') as answer:\n        \
                 print(await answer.text())\n    \
             async with httpx.AsyncClient() as client:\n        \
                 print((await client.get('http://plain.test/httpx')).text)\n\
         asyncio.run(main())\n\
         print(requests.get('https://api.test/requests', verify='/data/ca.pem').text)\n\
         print(httpx.get('https://api.test/httpx', verify='/data/ca.pem').text)\n\
         try:\n    requests.get('http://evil.test/')\n\
         except requests.ConnectionError: print('not evil')",
    ),
    (
        "typescript",
        "import http from 'node:http';\n\
         console.log(await (await fetch('http://plain.test/fetch')).text());\n\
         http.get('http://plain.test/node', answer => answer.on('data', data => console.log(String(data))));\n\
         await fetch('http://evil.test/').catch(() => console.log('not evil'));",
    ),
];

#[tokio::test]
async fn clients_of_languages_on_docker_reach_what_is_listed() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let mut told = String::new();
    for (language, code) in PROGRAMS {
        let outcome = call(&app, language, code, json!({ "timeoutSeconds": 60 })).await;
        let said = outcome["stdout"].as_str().unwrap_or_default();
        let failed = if outcome["status"] == "ok" {
            String::new()
        } else {
            outcome.to_string()
        };
        writeln!(told, "{language}\n{said}{}{failed}", hosts(&outcome)).unwrap();
    }
    insta::assert_snapshot!(told, @r"
    python
    plain.test /aiohttp
    plain.test /httpx
    api.test /requests
    api.test /httpx
    not evil
    api.test:443 allowed  [2, 0]
    evil.test denied not_listed [0, 1]
    plain.test:80 allowed  [2, 0]

    typescript
    plain.test /fetch
    not evil
    plain.test /node
    evil.test denied not_listed [0, 4]
    plain.test:80 allowed  [2, 0]
    ");
    app.assert_nothing_is_left().await;
}
