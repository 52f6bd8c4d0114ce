#!/usr/bin/env python3
"""Tries the camera service by Triton's client: what it calls by default, and what it can be told to.

    triton_client.py NAE-INFER

Needs the packages numpy and tritonclient[http].
"""

import sys

import numpy as np
import service
import tritonclient.http as triton


def image(values, datatype="FP32", **how):
    tensor = triton.InferInput("image", values.shape, datatype)
    return [tensor.set_data_from_numpy(values, **how)]


def refused(status, reason, call, *arguments, **named):
    try:
        answer = call(*arguments, **named)
    except triton.InferenceServerException as error:
        assert error.status() == str(status) and reason in error.message(), error
    else:
        raise AssertionError(f"expected {status}, found {answer}")


def descriptions(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(service.MODEL)
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    model = client.get_model_metadata(service.MODEL)
    [version] = model["versions"]
    assert client.is_model_ready(service.MODEL, version)
    assert client.get_model_metadata(service.MODEL, version) == model
    config = client.get_model_config(service.MODEL, version)
    assert config["input"] == [{"name": "image", "data_type": "TYPE_FP32", "dims": [-1, 1, 16, 16]}], config
    assert not client.is_model_ready(service.MODEL, "1") and not client.is_model_ready("other")
    refused(404, "no version `1`", client.get_model_metadata, service.MODEL, "1")
    refused(404, "no model of this name", client.get_model_metadata, "other")
    refused(501, "/metrics", client.get_inference_statistics, service.MODEL)
    return version


def inference(client, version):
    values, energies = service.images()
    answer = client.infer(service.MODEL, image(values), request_id="7")
    document = answer.get_response()
    assert (document["id"], document["model_version"]) == ("7", version), document
    # By default everything comes in bytes.
    assert all("data" not in output for output in document["outputs"]), document
    service.same(answer.as_numpy("energy"), energies)
    anomalies = answer.as_numpy("anomaly")
    service.same_verdicts(answer.as_numpy("p_value"), anomalies)

    for how in (
        {"model_version": version},
        {"request_compression_algorithm": "gzip"},
        {"request_compression_algorithm": "deflate"},
        {"response_compression_algorithm": "gzip"},
    ):
        service.same(client.infer(service.MODEL, image(values), **how).as_numpy("energy"), energies)
    service.same(client.async_infer(service.MODEL, image(values)).get_result().as_numpy("energy"), energies)
    service.same(client.infer(service.MODEL, image(values, binary_data=False)).as_numpy("energy"), energies)

    wanted = [triton.InferRequestedOutput("anomaly", binary_data=False), triton.InferRequestedOutput("energy")]
    answer = client.infer(service.MODEL, image(values), outputs=wanted)
    assert [output["name"] for output in answer.get_response()["outputs"]] == ["anomaly", "energy"]
    service.same(answer.as_numpy("energy"), energies)
    np.testing.assert_array_equal(answer.as_numpy("anomaly"), anomalies)
    assert answer.as_numpy("p_value") is None

    # Bytes are 255ths.
    eight = np.round(values * 255).astype(np.uint8)
    by_bytes = client.infer(service.MODEL, image(eight, "UINT8")).as_numpy("energy")
    by_floats = client.infer(service.MODEL, image(eight.astype(np.float32) / 255)).as_numpy("energy")
    np.testing.assert_array_equal(by_bytes, by_floats)


def refusals(client):
    values, _ = service.images()
    infer = client.infer
    refused(404, "no model of this name", infer, "other", image(values))
    refused(404, "no version `1`", infer, service.MODEL, image(values), model_version="1")
    refused(400, "[1 to 256, 1, 16, 16], found [15, 1, 16, 15]", infer, service.MODEL, image(values[..., 1:]))
    refused(400, "of FP64", infer, service.MODEL, image(values.astype(np.float64), "FP64"))
    refused(400, "expected one input", infer, service.MODEL, image(values) * 2)
    unknown = [triton.InferRequestedOutput("latent")]
    refused(400, "found `latent`", infer, service.MODEL, image(values), outputs=unknown)


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    with service.running(arguments[0]) as address, triton.InferenceServerClient(address) as client:
        inference(client, descriptions(client))
        refusals(client)
    print("Triton's client: all as expected")


main(sys.argv[1:])
