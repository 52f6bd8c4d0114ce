"""Tries the camera service on a real Home Assistant: its entities are found, and follow alarm, camera and service.

    python3.13 -m venv target/home-assistant
    target/home-assistant/bin/pip install -r tests/python/home_assistant.txt
    target/home-assistant/bin/python tests/python/home_assistant.py target/debug/nae-infer

Needs mosquitto. Home Assistant runs within this process, in a folder of its own, and is given the broker as its user interface
does it. Not part of tests/run.sh: Home Assistant wants a Python of its own (3.13; an older one runs by 3.11), and versions of packages
that others do not.
"""

import asyncio
import logging
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from homeassistant import auth, bootstrap, config_entries, core, loader, setup
from homeassistant.helpers import device_registry, entity_registry

ROOT = pathlib.Path(__file__).parents[2]
IMAGES = ROOT / "models/digits/images"
PATIENCE = 60
ANOMALY = "binary_sensor.gate_anomaly"
CAMERA = "binary_sensor.gate_camera"
ENERGY = "sensor.gate_energy"
PICTURE = "image.gate_last_alarm"


async def wait(what, condition):
    for _ in range(PATIENCE * 20):
        if condition():
            print("ok:", what, flush=True)
            return
        await asyncio.sleep(0.05)
    sys.exit(f"timed out waiting: {what}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def home_assistant(folder, port):
    """A Home Assistant that has this broker, without its user interface: that asks for many packages more."""
    (folder / "configuration.yaml").write_text("")
    hass = core.HomeAssistant(str(folder))
    loader.async_setup(hass)
    hass.config.skip_pip = True
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    await bootstrap.async_load_base_functionality(hass)
    hass.auth = await auth.auth_manager_from_config(hass, [], [])
    # On a port of its own, and nobody else's.
    http = {"server_host": "127.0.0.1", "server_port": free_port()}
    for name, settings in [("homeassistant", {}), ("http", http)]:
        assert await setup.async_setup_component(hass, name, {name: settings}), name
    await hass.async_start()
    flow = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    answer = {"broker": "127.0.0.1", "port": port}
    result = await hass.config_entries.flow.async_configure(flow["flow_id"], answer)
    assert result["type"] == "create_entry", result
    return hass


class Frames:
    """A folder that the service watches."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def add(self, name):
        self.count += 1
        hidden = self.folder / f".{self.count:04}.png"
        shutil.copy(IMAGES / f"{name}.png", hidden)
        hidden.rename(self.folder / f"{self.count:04}.png")


async def run(program, folder):
    port = free_port()
    broker = subprocess.Popen(["mosquitto", "-p", str(port)], stderr=subprocess.DEVNULL)
    children = [broker]

    def serve():
        arguments = ["--model", ROOT / "models/digits/digits.onnx", "--source", f"folder:{folder}/frames"]
        arguments += ["--state", folder / "state", "--listen", "127.0.0.1:0", "--mqtt", f"mqtt://127.0.0.1:{port}"]
        arguments += ["--camera-name", "gate", "--mqtt-home-assistant", "homeassistant"]
        arguments += ["--alarm-raise", "2", "--alarm-clear", "0", "--alarm-window", "2"]
        children.append(subprocess.Popen([program, "serve", *arguments], stderr=subprocess.DEVNULL))
        return children[-1]

    try:
        for name in ["frames", "config"]:
            (folder / name).mkdir()
        frames = Frames(folder / "frames")
        service = serve()
        hass = await home_assistant(folder / "config", port)

        def state(entity):
            found = hass.states.get(entity)
            return found and found.state

        await wait("the camera is found", lambda: state(CAMERA) == "on" and state(ANOMALY) == "off")
        for _ in range(2):
            frames.add("checkerboard")
        await wait("the alarm is raised", lambda: state(ANOMALY) == "on")
        raised = hass.states.get(ANOMALY).attributes
        assert raised["device_class"] == "problem" and raised["source"] == "connected", raised
        await wait("an energy", lambda: state(ENERGY) not in (None, "unknown", "unavailable") and float(state(ENERGY)) > 0)
        image = hass.data["image"].get_entity(PICTURE)
        await wait("there is a picture", lambda: state(PICTURE) not in (None, "unknown", "unavailable"))
        assert (await image.async_image()).startswith(b"\xff\xd8\xff")
        assert image.content_type == "image/jpeg"
        for _ in range(2):
            frames.add("six")
        await wait("the alarm is cleared", lambda: state(ANOMALY) == "off")

        shutil.rmtree(folder / "frames")
        await wait("the camera is lost", lambda: state(CAMERA) == "off" and state(ENERGY) == "unavailable")
        assert "frames" in hass.states.get(ANOMALY).attributes["reason"]
        service.send_signal(signal.SIGKILL)
        await wait("the service is gone", lambda: {state(entity) for entity in (ANOMALY, CAMERA, ENERGY, PICTURE)} == {"unavailable"})
        (folder / "frames").mkdir()
        serve()
        await wait("it is there again", lambda: state(CAMERA) == "on" and state(ANOMALY) == "off")

        devices = [device for device in device_registry.async_get(hass).devices.values() if device.name == "gate"]
        assert len(devices) == 1 and devices[0].identifiers == {("mqtt", "nae_gate")}, devices
        entities = entity_registry.async_entries_for_device(entity_registry.async_get(hass), devices[0].id)
        assert sorted(entity.entity_id for entity in entities) == sorted([ANOMALY, CAMERA, ENERGY, PICTURE]), entities
        print("ok: one device with four entities, after a restart of the service, too")
        await hass.async_stop(force=True)
    finally:
        for child in children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    logging.basicConfig(level=logging.WARNING)
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(run(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(place)))
