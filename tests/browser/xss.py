"""Payloads that run a script where text is not escaped: A8 of the security model. Each sets `window.__pwned`."""

from html import escape
from itertools import chain
from urllib.parse import quote

MARK = "window.__pwned=1"

# Elements that run a script by themselves or by an event that comes soon.
ELEMENTS = (
    "<script>{}</script>",
    "<ScRiPt>{}</sCrIpT>",
    "<script/x>{}</script/x>",
    "<script src=data:text/javascript,{}></script>",
    "<script type=module>{}</script>",
    "<scr<script>ipt>{}</scr</script>ipt>",
    "<img src=x onerror={}>",
    "<img src=x oNeRrOr='{}'>",
    "<img/src='x'/onerror={}>",
    "<image src=x onerror={}>",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<svg><animate onbegin={} attributeName=x dur=1s>",
    "<svg><set onbegin={} attributename=x to=1>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload={}></svg>#x'/></svg>",
    "<svg><foreignObject><img src=x onerror={}></foreignObject></svg>",
    "<math><mtext><img src=x onerror={}></mtext></math>",
    "<body onload={}>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    "<iframe src=javascript:parent.{}></iframe>",
    "<iframe onload={}></iframe>",
    "<object data='data:text/html,<script>{}</script>'></object>",
    "<embed src=javascript:{}>",
    "<video src=x onerror={}></video>",
    "<video><source onerror={}></video>",
    "<audio src=x onerror={}></audio>",
    "<input autofocus onfocus={}>",
    "<select autofocus onfocus={}></select>",
    "<textarea autofocus onfocus={}></textarea>",
    "<button autofocus onfocus={}>x</button>",
    "<details open ontoggle={}>x</details>",
    "<marquee onstart={}>x</marquee>",
    "<style onload={}></style>",
    "<style>@import 'javascript:{}'</style>",
    "<link rel=stylesheet href=data:text/css,x onload={}>",
    "<link rel=import href='data:text/html,<script>{}</script>'>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<base href=javascript:{}//>",
    "<form action=javascript:{}><input type=submit autofocus></form>",
    "<a href=javascript:{}>x</a>",
    "<a href='&#106;avascript:{}'>x</a>",
    "<a href='java&Tab;script:{}'>x</a>",
    "<div hx-on:load={}>x</div>",
    "<div hx-get='/help' hx-trigger=load hx-on::after-request={}>x</div>",
    "<div hx-vals='js:{{x: {}}}' hx-trigger=load hx-get=/help>x</div>",
    "<div sse-connect=/live hx-on::sse-open={}>x</div>",
    "<div style='animation-name:x' onanimationstart={}>x</div>",
    "<template><script>{}</script></template>",
    "<noscript><p title='</noscript><img src=x onerror={}>'>",
    "<title><img src=x onerror={}></title>",
)
# Ends of the context in which text may stand.
ENDS = (
    '">',
    "'>",
    "</title>",
    "</textarea>",
    "</script>",
    "</style>",
    "</pre>",
    "</td></tr></table>",
    "</option></select>",
    "-->",
    "]]>",
    "</svg>",
    '\\">',
    "`>",
)
SHORT = ("<script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>", "<details open ontoggle={}>")
# Without a new element: attributes, addresses, strings of scripts, templates.
OTHERS = (
    '" autofocus onfocus={} x="',
    "' autofocus onfocus={} x='",
    '" onmouseover={} x="',
    "' onmouseover={} x='",
    "x onload={}",
    '" onload={} x="',
    '" hx-on:load={} hx-trigger=load x="',
    '" style="background:url(javascript:{})',
    "javascript:{}",
    "JaVaScRiPt:{}",
    "\\x01javascript:{}",
    "javascript://%0a{}",
    "javascript:/*--></title></style></textarea></script><svg/onload={}>",
    "data:text/html,<script>{}</script>",
    "vbscript:{}",
    "//evil.example/{}",
    "';{};//",
    '";{};//',
    "\\';{};//",
    "`;{};//",
    "${{{}}}",
    "</script><script>{}//",
    "{{{{ {} }}}}",
    "{{{{ self.__init__.__globals__ }}}}{}",
    "{{% set x = 1 %}}{}",
    "#{{{}}}",
    "<%= {} %>",
    "[[constructor.constructor('{}')()]]",
    "&lt;script&gt;{}&lt;/script&gt;",
    "&#60;script&#62;{}&#60;/script&#62;",
    "%3Cscript%3E{}%3C/script%3E",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "\uff1cscript\uff1e{}\uff1c/script\uff1e",
    "<\u017fcript>{}</\u017fcript>",
    "<<script>{}//<</script>",
    "<script>{}",
    "<img src=x onerror={}//",
    "<!--><img src=x onerror={}>-->",
    "<![CDATA[<script>{}</script>]]>",
    "<?xml version='1.0'?><script>{}</script>",
    "![x](javascript:{})",
    "[x](javascript:{})",
    "<javascript:{}>",
    '=HYPERLINK("javascript:{}")',
)


def _payloads() -> list[str]:
    plain = [each.format(MARK) for each in chain(ELEMENTS, OTHERS)]
    ended = [end + each.format(MARK) for end in ENDS for each in SHORT]
    encoded = [escape(each.format(MARK)) for each in ELEMENTS[:30]] + [
        quote(each.format(MARK)) for each in ELEMENTS[:30]
    ]
    return list(dict.fromkeys([*plain, *ended, *encoded]))


PAYLOADS = _payloads()
