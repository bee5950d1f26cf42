"""What an S3 server or the SDK said, as one of our failures: one table of codes, one of statuses."""

from http import HTTPStatus
from typing import Any, NamedTuple

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSLError,
)
from botocore.exceptions import (
    ConnectionError as SdkConnectionError,
)

from streams_node.errors import (
    ObjectMissing,
    PreconditionFailed,
    StoreCorrupt,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    StoreUnsuitable,
)

_SHOWN_CHARS = 200
_WRITES = ("put", "delete")
_RIGHTS = {"put": "s3:PutObject", "get": "s3:GetObject", "head": "s3:GetObject", "delete": "s3:DeleteObject"}

# What an operator can do about a refusal. HEAD answers have no body, so their code is only the status.
_WAYS_OUT = {
    "AccessDenied": "the credentials lack {right} on this bucket and prefix",
    "403": "the credentials lack {right} on this bucket and prefix, or s3:ListBucket on the bucket",
    "AllAccessDisabled": "the bucket is disabled",
    "InvalidAccessKeyId": "the access key is not known there; correct s3_access_key_id",
    "SignatureDoesNotMatch": "the secret key is wrong, or a proxy changes requests; correct s3_secret_access_key",
    "ExpiredToken": "the session token has ended; get new credentials",
    "InvalidToken": "the session token is not valid; get new credentials",
    "TokenRefreshRequired": "the session token has ended; get new credentials",
    "RequestTimeTooSkewed": "this machine's clock is wrong by minutes; set it",
    "NoSuchBucket": "there is no such bucket; create it, or correct s3_bucket",
    "InvalidBucketName": "no bucket can have this name; correct s3_bucket",
    "PermanentRedirect": "the bucket is elsewhere; correct s3_region or s3_endpoint",
    "AuthorizationHeaderMalformed": "the region is wrong; correct s3_region",
    "IllegalLocationConstraintException": "the region is wrong; correct s3_region",
    "KMS.DisabledException": "the key of s3_kms_key is disabled",
    "KMS.NotFoundException": "there is no such key; correct s3_kms_key",
    "EntityTooLarge": "the store does not take objects of this size",
    "QuotaExceeded": "the quota of the bucket is used up",
}
_DAMAGED = {"BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "InvalidDigest", "IncompleteBody"}
_BUSY = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "InternalError"}
# Two conditional writes at the same moment: one of them is told to ask again.
_RACED = {"ConditionalRequestConflict", "OperationAborted"}
_OF_THE_LINE = (SdkConnectionError, HTTPClientError, CredentialRetrievalError, MetadataRetrievalError)


class Request(NamedTuple):
    op: str
    what: str
    place: str

    @property
    def text(self) -> str:
        return f"{self.place}: cannot {self.op} `{self.what}`"


def translated(problem: Exception, request: Request) -> StoreError:
    if isinstance(problem, ClientError):
        return _answered(problem, request)
    if isinstance(problem, (NoCredentialsError, PartialCredentialsError)):
        return StoreRefused(
            f"{request.text}: there are no complete credentials; set s3_access_key_id and s3_secret_access_key, "
            "or what the AWS SDK reads"
        )
    if isinstance(problem, SSLError):
        return StoreRefused(f"{request.text}: TLS failed ({_shown(problem)}); look at the certificate and s3_endpoint")
    if isinstance(problem, BotoCoreError) and not isinstance(problem, _OF_THE_LINE):
        # A name, an address or a profile that cannot be.
        return StoreRefused(f"{request.text}: {_shown(problem)}; look at s3_bucket, s3_endpoint and s3_region")
    # Anything else is a line that broke, and then a request may have arrived all the same.
    return _unavailable(request, _shown(problem))


def _answered(problem: ClientError, request: Request) -> StoreError:
    code, status, headers = _facts(problem)
    match status:
        case HTTPStatus.PRECONDITION_FAILED:
            return PreconditionFailed(request.what)
        case HTTPStatus.NOT_FOUND if code != "NoSuchBucket" and request.op in {"get", "head"}:
            return ObjectMissing(request.what)
        case HTTPStatus.NOT_FOUND if code == "NoSuchKey" and request.op == "put":
            return PreconditionFailed(request.what)  # if-match of an object that is gone
        case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return StoreCorrupt(request.what, "it is shorter than the range that was asked for")
        case HTTPStatus.NOT_IMPLEMENTED:
            return StoreUnsuitable(f"{request.text}: the store says that it does not implement this ({code})")
    if code in _DAMAGED:
        return StoreCorrupt(request.what, f"it did not arrive as it was sent ({code})")
    if code in _RACED:
        return StoreUnavailable(f"{request.text}: another write of it is going on ({code})")
    if code in _BUSY or status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _unavailable(request, f"{status} {code}", _retry_after_ms(headers))
    way_out = _WAYS_OUT.get(code, "the store's own log may say why").format(
        right=_RIGHTS.get(request.op, "s3:ListBucket")
    )
    return StoreRefused(f"{request.text}: {code}; {way_out}")


def _unavailable(request: Request, why: str, retry_after_ms: int | None = None) -> StoreUnavailable:
    return StoreUnavailable(
        f"{request.text}: {why}", outcome_unknown=request.op in _WRITES, retry_after_ms=retry_after_ms
    )


def _facts(problem: ClientError) -> tuple[str, int, dict[str, Any]]:
    error, answer = problem.response.get("Error", {}), problem.response.get("ResponseMetadata", {})
    return str(error.get("Code", "")), int(answer.get("HTTPStatusCode", 0)), dict(answer.get("HTTPHeaders", {}))


def _retry_after_ms(headers: dict[str, Any]) -> int | None:
    seconds = str(headers.get("retry-after", ""))
    return int(seconds) * 1000 if seconds.isascii() and seconds.isdigit() else None


def _shown(problem: Exception) -> str:
    return " ".join(str(problem).split())[:_SHOWN_CHARS]  # one line: some of the SDK's have more
