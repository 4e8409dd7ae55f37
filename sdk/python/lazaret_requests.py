"""A face like that of `requests`, over lazaret:host/http: `import lazaret_requests as requests`.

One request, one response. Redirects are returned and not followed, there are no sessions and no cookies. What the gate
refuses raises `Refused`, what was tried in vain `ConnectionError`; both are `RequestException`.
"""

import base64
import json as _json
from urllib.parse import urlencode

from componentize_py_types import Err
from wit_world.imports import http, types


class RequestException(IOError):
    pass


class ConnectionError(RequestException):
    pass


class HTTPError(RequestException):
    pass


class Refused(RequestException):
    """The gate said no: `code`, `layer`, `reason` and `remedy` are in `refusal`."""

    def __init__(self, refusal):
        super().__init__(f"{refusal.code}: {refusal.reason}")
        self.refusal = refusal


class Response:
    def __init__(self, url, answer):
        self.url = url
        self.status_code = answer.status
        self.headers = {header.name: header.value for header in answer.headers}
        self.content = bytes(answer.body)

    @property
    def ok(self):
        return self.status_code < 400

    @property
    def text(self):
        return self.content.decode(errors="replace")

    def json(self):
        return _json.loads(self.content)

    def raise_for_status(self):
        if not self.ok:
            raise HTTPError(f"{self.status_code} for {self.url}")


def request(method, url, params=None, data=None, headers=None, json=None, auth=None):
    fields = {name.lower(): value for name, value in (headers or {}).items()}
    if params:
        url += ("&" if "?" in url else "?") + urlencode(params)
    if json is not None:
        data = _json.dumps(json)
        fields.setdefault("content-type", "application/json")
    elif isinstance(data, dict):
        data = urlencode(data)
        fields.setdefault("content-type", "application/x-www-form-urlencoded")
    if auth:
        # A handle as the password is found in here, too.
        fields["authorization"] = "Basic " + base64.b64encode(":".join(auth).encode()).decode()
    body = data.encode() if isinstance(data, str) else data or b""
    asked = http.Request(method.upper(), url, [http.Header(*field) for field in fields.items()], body)
    try:
        return Response(url, http.fetch(asked))
    except Err as error:
        if isinstance(error.value, types.Fault_Refused):
            raise Refused(error.value.value) from None
        raise ConnectionError(error.value.value) from None


def get(url, **options):
    return request("GET", url, **options)


def post(url, data=None, json=None, **options):
    return request("POST", url, data=data, json=json, **options)


def put(url, data=None, **options):
    return request("PUT", url, data=data, **options)


def delete(url, **options):
    return request("DELETE", url, **options)
