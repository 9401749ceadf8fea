"""Sixty-four secrets, each planted where real programs let them slip, and an app whose jobs fail with them.

Run as a worker's app by `test_secrets.py`. Every secret contains a marker that occurs nowhere else.
"""

import base64
import logging
import re
import subprocess
import sys

from mulligan import App, FinalError, RetryPolicy, Rule, Steps, attempt

MARK = "Zq7"
ONCE = RetryPolicy(max_attempts=1)
log = logging.getLogger("planted")


def secret(number: int) -> str:
    return f"{MARK}x{number:02d}kWmP4v"


S = [secret(number) for number in range(64)]
BASIC = base64.b64encode(f"ann:{S[1]}".encode()).decode()
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{S[2]}.c2ln{S[3]}"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA{S[4]}\n{S[5]}==\n-----END RSA PRIVATE KEY-----"

MESSAGES = [
    f"Authorization: Bearer {S[0]}",
    f"proxy refused Basic {BASIC}",
    f"the token {JWT} is expired",
    f"bad key:\n{PEM}",
    f"postgresql://app:{S[6]}@db:5432/shop is down",
    f"redis://:{S[7]}@cache/0 is down",
    f"GET https://api.example/v1?page=2&access_token={S[8]} gave 500",
    f"https://bucket.example/x?X-Amz-Signature={S[9]}&X-Amz-Credential={S[10]}",
    f"PASSWORD={S[11]}\nAPI_KEY={S[12]}\nHOST=db",
    f'{{"password": "{S[13]}", "user": "ann"}}',
    f'{{"nested": {{"client_secret": "{S[14]}", "n": 1}}}}',
    repr({"api_key": S[15], "n": 1}),
    repr([("Cookie", f"sid={S[16]}"), ("Accept", "*/*")]),
    f"Cookie: sid={S[17]}; theme=dark",
    f"Set-Cookie: session={S[18]}; Path=/",
    f"connect(host='db', password='{S[19]}')",
    f"host=db user=app password={S[20]} dbname=shop",
    f"Server=db;User Id=app;Password={S[21]};Database=shop",
    f"<auth><password>{S[22]}</password></auth>",
    f"export AWS_SECRET_ACCESS_KEY={S[23]}",
    f"No such key: sk_live_{S[24]}",
    f"ghp_{S[25]}{S[25]} was revoked",
    f"xoxb-123456789012-{S[26]} is not in the channel",
    f"github_pat_{S[27]}{S[27]} has no access",
    f"mk_ab12cd34_{S[28]}{S[28]}_9f may not do this",
    f"DETAIL: Key (api_token)=({S[29]}) already exists.",
    f"curl: (22) curl -u ann:{S[30]} https://x failed",
    f"tool --password {S[31]} --verbose failed",
    f"x-api-key: {S[32]}",
    f"passphrase: correct {S[33]} battery",
    r"body was {\"secret_key\": \"" + S[34] + r"\"}",
    f"AccountKey={S[35]};EndpointSuffix=core.example",
    f"https://{S[36]}{S[36]}@git.example/x.git not found",
    f"smtp login with password: {S[37]} refused",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S[38]}",
    f"the registered literal {S[39]} stands alone",
    f"customer CUST-{S[40]} is blocked",
    f"DB_PASS='{S[41]}' is wrong",
    f"glpat-{S[42]}abcdefg expired",
    f"csrf_token={S[43]} does not match",
    f"POST https://api.telegram.org/bot110201543:{S[60]}/sendMessage gave 403",
    f"app:p%40{S[61]}@db:5432 refused",
    f"invalid DSN https://{S[62]}@errors.example/42",
    f"POST https://discord.com/api/webhooks/123456/{S[63]} gave 404",
]

app = App("sqlite:///planted.db", redact=[S[39]])
app.redact(re.compile(r"CUST-\w+"))


@app.task(retry=RetryPolicy(max_attempts=2, backoff=Steps(["1ms"])))
def say(number: int) -> None:
    log.warning("about to fail: %s", MESSAGES[number])
    attempt().progress(0.5, MESSAGES[number])
    raise ValueError(MESSAGES[number])


@app.task(retry=ONCE)
def chained() -> None:
    try:
        raise ConnectionError(f"https://u:{S[44]}@x is down")
    except ConnectionError as error:
        problem = RuntimeError("could not pay", {"password": S[45]})
        problem.add_note(f"tried with token={S[46]}")
        raise problem from error


@app.task(retry=ONCE)
def in_a_group() -> None:
    raise ExceptionGroup("several", [ValueError(f"api_key={S[47]}"), OSError(5, f"secret={S[48]}")])


@app.task(retry=ONCE)
def command_line() -> None:
    script = f"import sys; sys.stderr.write('login failed: password={S[49]}\\n'); sys.exit(3)"
    argv = [sys.executable, "-c", script, "--token", S[50], f"--api-key={S[51]}", "-u", f"ann:{S[52]}"]
    subprocess.run(argv, check=True, capture_output=True)


@app.task(retry=ONCE)
async def program() -> None:
    script = f"import sys; print('Authorization: Bearer {S[53]}', file=sys.stderr); sys.exit(4)"
    await attempt().run_async([sys.executable, "-c", script, f"--password={S[54]}"], progress=lambda line: (0.1, line))


@app.task(retry=ONCE)
def with_locals() -> None:
    stolen = S[55][::-1][::-1]
    raise KeyError("nothing of the frame is kept" if stolen else "")


@app.task(isolate=True, retry=ONCE)
def in_a_child() -> None:
    logging.getLogger("child").error("child says password=%s", S[56])
    raise FinalError(f"pwd={S[57]}", code="NOT_PDF")


def ruled(failure: object) -> None:
    raise ValueError(f"rule with secret={S[58]}")


@app.task(retry=ONCE, rules=[ruled, Rule("ODD", "final", message="odd")])
def judged() -> None:
    raise ValueError("odd")
