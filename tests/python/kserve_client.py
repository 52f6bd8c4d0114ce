"""Tries the camera service by KServe's client.

    python tests/python/kserve_client.py target/debug/nae-infer

Needs what tests/python/requirements.txt lists. The requests that it sends are those of Triton's client, and of
`nae-infer/cli/tests/service/inference.rs`; health and readiness it takes from the JSON of the answer.
"""

import asyncio
import sys

import httpx
import service
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput


def request(values, binary, names=None, model=service.MODEL):
    tensor = InferInput("image", list(values.shape), "FP32")
    tensor.set_data_from_numpy(values, binary_data=binary)
    wanted = names and [RequestedOutput(name, {"binary_data": binary}) for name in names]
    return InferRequest(model_name=model, infer_inputs=[tensor], request_outputs=wanted, request_id="7")


async def calls(url):
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    assert await client.is_server_live(url) is True
    assert await client.is_server_ready(url) is True
    assert await client.is_model_ready(url, service.MODEL) is True
    assert await client.is_model_ready(url, "other") is False
    values, energies = service.images()
    for binary in (True, False):
        answer = await client.infer(url, request(values, binary), model_name=service.MODEL)
        assert answer.id == "7" and [o.name for o in answer.outputs] == ["energy", "p_value", "anomaly"], answer
        service.same(answer.outputs[0].as_numpy(), energies)
        service.same_verdicts(*(output.as_numpy() for output in answer.outputs[1:]))
        answer = await client.infer(url, request(values, binary, ["energy"]), model_name=service.MODEL)
        [energy] = answer.outputs
        service.same(energy.as_numpy(), energies)
    for wrong, reason in ((request(values[..., 1:], True), "found [15, 1, 16, 15]"), (request(values, True, ["x"]), "`x`")):
        try:
            await client.infer(url, wrong, model_name=service.MODEL)
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 400 and reason in str(error), error
        else:
            raise AssertionError(f"expected an error with {reason}")


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    with service.running(arguments[0]) as address:
        asyncio.run(calls(f"http://{address}"))
    print("KServe's client: all as expected")


main(sys.argv[1:])
