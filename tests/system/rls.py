# SPDX-License-Identifier: Apache-2.0
"""Envoy's rate limit service as its clients see it: real messages, and grpcio.

The messages are declared here as envoy's and grpc's own files do, under their full
names and with their own types, and not as src/wire/rls.proto has them: the bytes
must be the same nevertheless.
"""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from google.protobuf import json_format, struct_pb2, wrappers_pb2

from daemon import PATIENCE

F = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": F.TYPE_STRING, "uint32": F.TYPE_UINT32, "bool": F.TYPE_BOOL,
           "bytes": F.TYPE_BYTES}
LIMIT = "envoy.extensions.common.ratelimit.v3"
RLS = "envoy.service.ratelimit.v3"

# package: {message: [(field, number, type, repeated)]}, and enumerations.
MESSAGES = {
    LIMIT: {
        "Entry": [("key", 1, "string", False), ("value", 2, "string", False)],
        "RateLimitOverride": [("requests_per_unit", 1, "uint32", False),
                              ("unit", 2, f".{LIMIT}.Unit", False)],
        "RateLimitDescriptor": [("entries", 1, f".{LIMIT}.Entry", True),
                                ("limit", 2, f".{LIMIT}.RateLimitOverride", False),
                                ("hits_addend", 3, ".google.protobuf.UInt64Value", False),
                                ("is_negative_hits", 4, "bool", False)],
    },
    RLS: {
        "RateLimitRequest": [("domain", 1, "string", False),
                             ("descriptors", 2, f".{LIMIT}.RateLimitDescriptor", True),
                             ("hits_addend", 3, "uint32", False)],
        "RateLimit": [("requests_per_unit", 1, "uint32", False), ("unit", 2, f".{LIMIT}.Unit", False),
                      ("name", 3, "string", False)],
        "DescriptorStatus": [("code", 1, f".{RLS}.Code", False),
                             ("current_limit", 2, f".{RLS}.RateLimit", False),
                             ("limit_remaining", 3, "uint32", False),
                             ("duration_until_reset", 4, ".google.protobuf.Duration", False)],
        "HeaderValue": [("key", 1, "string", False), ("value", 2, "string", False),
                        ("raw_value", 3, "bytes", False)],
        "RateLimitResponse": [("overall_code", 1, f".{RLS}.Code", False),
                              ("statuses", 2, f".{RLS}.DescriptorStatus", True),
                              ("response_headers_to_add", 3, f".{RLS}.HeaderValue", True),
                              ("request_headers_to_add", 4, f".{RLS}.HeaderValue", True),
                              ("raw_body", 5, "bytes", False),
                              ("dynamic_metadata", 6, ".google.protobuf.Struct", False)],
    },
    "grpc.health.v1": {
        "HealthCheckRequest": [("service", 1, "string", False)],
        "HealthCheckResponse": [("status", 1, ".grpc.health.v1.ServingStatus", False)],
    },
}
ENUMS = {
    LIMIT: {"Unit": ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"]},
    RLS: {"Code": ["UNKNOWN", "OK", "OVER_LIMIT"]},
    "grpc.health.v1": {"ServingStatus": ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"]},
}
ENUM_TYPES = {f".{package}.{name}" for package, enums in ENUMS.items() for name in enums}


def _declare(package, messages):
    file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package,
                                              syntax="proto3")
    file.dependency.extend(["google/protobuf/wrappers.proto", "google/protobuf/duration.proto",
                            "google/protobuf/struct.proto"])
    if package == RLS:
        file.dependency.append(LIMIT + ".proto")
    for name, values in ENUMS[package].items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            added = message.field.add(name=field, number=number)
            added.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
            if kind in SCALARS:
                added.type = SCALARS[kind]
            else:
                added.type = F.TYPE_ENUM if kind in ENUM_TYPES else F.TYPE_MESSAGE
                added.type_name = kind
    return file


_pool = descriptor_pool.DescriptorPool()
for _known in (wrappers_pb2, duration_pb2, struct_pb2):
    _pool.AddSerializedFile(_known.DESCRIPTOR.serialized_pb)
for _package, _messages in MESSAGES.items():
    _pool.Add(_declare(_package, _messages))
_factory = message_factory.MessageFactory(_pool)


def _class(name):
    return _factory.GetPrototype(_pool.FindMessageTypeByName(name))


RateLimitRequest = _class(RLS + ".RateLimitRequest")
RateLimitResponse = _class(RLS + ".RateLimitResponse")
HealthCheckRequest = _class("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _class("grpc.health.v1.HealthCheckResponse")

OK, OVER_LIMIT = 1, 2
METHOD = f"/{RLS}.RateLimitService/ShouldRateLimit"


def request(domain, *descriptors, hits=0):
    """Each descriptor is a dict of its entries, or a list of pairs."""
    r = RateLimitRequest(domain=domain, hits_addend=hits)
    for descriptor in descriptors:
        added = r.descriptors.add()
        for key, value in descriptor.items() if isinstance(descriptor, dict) else descriptor:
            added.entries.add(key=key, value=value)
    return r


class Client:
    """One connection. Nobody else's settings, and no connection is shared."""

    def __init__(self, address, **options):
        self.channel = grpc.insecure_channel(
            address, [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0),
                      *options.items()])
        self.should = self.channel.unary_unary(
            METHOD, RateLimitRequest.SerializeToString, RateLimitResponse.FromString)
        self.raw = self.channel.unary_unary(METHOD)
        self.check = self.channel.unary_unary(
            "/grpc.health.v1.Health/Check", HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString)
        self.watch = self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch", HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def ask(self, *args, timeout=PATIENCE, **options):
        return self.should(request(*args, **options), timeout=timeout)

    def code(self, *args, **options):
        return self.ask(*args, **options).overall_code


def from_json(text):
    return json_format.ParseDict(text, RateLimitRequest())


def to_json(message):
    return json_format.MessageToDict(message)
