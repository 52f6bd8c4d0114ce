//! The Open Inference Protocol, written byte by byte. Its clients in Python are in `tests/python`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, PATIENCE, Place, Service, model, models};

const INFER: &str = "/v2/models/digits/infer";
const LENGTH: &str = "Inference-Header-Content-Length";

/// Three images, the network's input.
fn values() -> Vec<f32> {
    (0..768).map(|i| (i % 17) as f32 / 16.0).collect()
}

fn little_endian(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What `values` get.
fn expected() -> Vec<nae_infer::Scored> {
    nae_infer::Detector::open(models().join("digits.onnx")).unwrap().score_prepared(&values()).unwrap()
}

/// Three images as bytes after the JSON.
fn described(datatype: &str, size: usize) -> Value {
    let parameters = json!({"binary_data_size": size});
    json!({"name": "image", "shape": [3, 1, 16, 16], "datatype": datatype, "parameters": parameters})
}

fn send(service: &Service, document: &Value, tensor: &[u8]) -> Answer {
    let text = document.to_string();
    let length = text.len().to_string();
    service.post_with(INFER, &[text.as_bytes(), tensor].concat(), &[(LENGTH, &length)])
}

#[test]
fn tensors_are_taken_as_json() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let tensor = |shape: &[usize], data: Value| {
        json!({"id": "7", "inputs": [{"name": "image", "shape": shape, "datatype": "FP32", "data": data}]}).to_string()
    };
    let infer = |body: &str| service.post(INFER, body.as_bytes());
    let (values, expected) = (values(), expected());
    let nested: Vec<Vec<Vec<&[f32]>>> = values.chunks(256).map(|image| vec![image.chunks(16).collect()]).collect();
    for data in [json!(values), json!(nested)] {
        let answer = infer(&tensor(&[3, 1, 16, 16], data));
        assert_eq!((answer.kind.as_str(), answer.header(LENGTH)), ("application/json", None));
        let answer = answer.json();
        assert_eq!((&answer["id"], &answer["outputs"][0]["name"]), (&json!("7"), &json!("energy")));
        let energies = answer["outputs"][0]["data"].as_array().unwrap();
        let energies: Vec<f32> = energies.iter().map(|e| e.as_f64().unwrap() as f32).collect();
        assert_eq!(energies, expected.iter().map(|s| s.energy).collect::<Vec<_>>());
    }
    for (wrong, reason) in [
        ("{}".to_owned(), "missing field `inputs`"),
        (json!({"inputs": []}).to_string(), "expected one input, `image`"),
        (tensor(&[3, 1, 16, 17], json!(values)), "expected the shape [1 to 256, 1, 16, 16], found [3, 1, 16, 17]"),
        (tensor(&[2, 1, 16, 16], json!(values)), "expected 512 values, found 768"),
        (tensor(&[0, 1, 16, 16], json!([])), "found [0, 1, 16, 16]"),
        (tensor(&[257, 1, 16, 16], json!([])), "found [257, 1, 16, 16]"),
        (tensor(&[usize::MAX, 1, 16, 16], json!(values)), "expected the shape"),
        (tensor(&[3, 256], json!(values)), "found [3, 256]"),
        (tensor(&[3, 1, 16, 16], json!("text")), "expected numbers in lists"),
        (tensor(&[3, 1, 16, 16], json!([true])), "expected numbers in lists"),
        (tensor(&[3, 1, 16, 16], json!([[[[[1.0]]]]])), "at most 4 lists in each other"),
        (tensor(&[3, 1, 16, 16], json!(null)), "`data`, or `binary_data_size`"),
        (tensor(&[3, 1, 16, 16], json!(values)).replace("FP32", "FP64"), "of FP32 or UINT8, found `image` of FP64"),
        (tensor(&[3, 1, 16, 16], json!(values)).replace("FP32", "UINT8"), "whole numbers from 0 to 255, found 0.0625"),
        (tensor(&[3, 1, 16, 16], json!(vec![256; 768])).replace("FP32", "UINT8"), "from 0 to 255, found 256"),
        (tensor(&[3, 1, 16, 16], json!(vec![-1; 768])).replace("FP32", "UINT8"), "from 0 to 255, found -1"),
        (tensor(&[3, 1, 16, 16], json!(values)).replace("image", "picture"), "found `picture`"),
    ] {
        let (status, said) = infer(&wrong).problem();
        assert!(status == 400 && said.contains(reason), "{wrong}: {status} {said}");
    }
}

#[test]
fn tensors_are_bytes_after_the_json() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let expected = expected();
    let tensor = little_endian(&values());
    let energies = little_endian(&expected.iter().map(|s| s.energy).collect::<Vec<_>>());
    let p_values = little_endian(&expected.iter().map(|s| s.p_value.unwrap()).collect::<Vec<_>>());
    let anomalies: Vec<u8> = expected.iter().map(|s| u8::from(s.verdict.unwrap().is_anomaly())).collect();

    // All in bytes, as Triton's client asks by itself.
    let all = json!({"parameters": {"binary_data_output": true}, "inputs": [described("FP32", 3072)]});
    let answer = send(&service, &all, &tensor);
    assert_eq!((answer.status, answer.kind.as_str()), (200, "application/octet-stream"));
    let (head, bytes) = answer.body.split_at(answer.header(LENGTH).unwrap().parse().unwrap());
    let head: Value = serde_json::from_slice(head).unwrap();
    let sized = |name: &str, datatype: &str, size: usize| json!({"name": name, "datatype": datatype, "shape": [3], "parameters": {"binary_data_size": size}});
    let outputs = [sized("energy", "FP32", 12), sized("p_value", "FP32", 12), sized("anomaly", "BOOL", 3)];
    assert_eq!((&head["outputs"], head.get("id")), (&json!(outputs), None));
    assert_eq!(bytes, [&energies[..], &p_values, &anomalies].concat());

    // Some, in another order, one of them in the JSON.
    let binary = json!({"binary_data": true});
    let two = json!([{"name": "anomaly"}, {"name": "energy", "parameters": binary}]);
    let answer = send(&service, &json!({"inputs": [described("FP32", 3072)], "outputs": two}), &tensor);
    let (head, bytes) = answer.body.split_at(answer.header(LENGTH).unwrap().parse().unwrap());
    let head: Value = serde_json::from_slice(head).unwrap();
    let flags: Vec<bool> = anomalies.iter().map(|&byte| byte == 1).collect();
    let anomaly = json!({"name": "anomaly", "datatype": "BOOL", "shape": [3], "data": flags});
    assert_eq!(head["outputs"], json!([anomaly, sized("energy", "FP32", 12)]));
    assert_eq!(bytes, energies);
    // What an output says of itself goes before what the request says of all.
    let one = json!([{"name": "energy", "parameters": {"binary_data": false}}]);
    let document =
        json!({"parameters": {"binary_data_output": true}, "inputs": [described("FP32", 3072)], "outputs": one});
    assert_eq!(send(&service, &document, &tensor).kind, "application/json");

    for (outputs, reason) in [
        (json!([{"name": "latent"}]), "expected outputs of `energy`, `p_value`, `anomaly`, found `latent`"),
        (json!([{"name": "energy"}, {"name": "energy"}]), "found `energy` twice"),
        (json!([{"name": "energy", "parameters": {"classification": 2}}]), "classification are not served"),
        (json!([{"name": "energy", "parameters": {"shared_memory_region": "x"}}]), "shared memory"),
    ] {
        let answer = send(&service, &json!({"inputs": [described("FP32", 3072)], "outputs": outputs}), &tensor);
        let (status, said) = answer.problem();
        assert!(status == 400 && said.contains(reason), "{outputs}: {status} {said}");
    }
}

#[test]
fn bytes_of_images_are_scaled_as_those_of_a_file() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let images: Vec<u8> = (0..768_usize).map(|i| ((i * 37 + i / 256 * 11) % 256) as u8).collect();
    let single = |energy: &Value| energy.as_f64().unwrap() as f32;
    let energies = |document: &Value, tensor: &[u8]| -> Vec<f32> {
        send(&service, document, tensor).json()["outputs"][0]["data"].as_array().unwrap().iter().map(single).collect()
    };
    let of_files: Vec<f32> = images
        .chunks(256)
        .map(|image| single(&service.post("/score", &[b"P5 16 16 255\n", image].concat()).json()["energy"]))
        .collect();
    assert_eq!(energies(&json!({"inputs": [described("UINT8", 768)]}), &images), of_files);
    let mut listed = described("UINT8", 0);
    listed.as_object_mut().unwrap().remove("parameters");
    listed["data"] = json!(images);
    assert_eq!(energies(&json!({"inputs": [listed]}), b""), of_files);
}

#[test]
fn sizes_that_lie_are_refused() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let tensor = little_endian(&values());
    let good = json!({"inputs": [described("FP32", 3072)]}).to_string();
    let whole = [good.as_bytes(), &tensor].concat();
    let right = good.len().to_string();
    let sized = |size: &str| good.replace("3072", size);
    let with = |text: &str, tensor: &[u8]| (text.len().to_string(), [text.as_bytes(), tensor].concat());
    let (much, none) = (sized("3073"), sized("0"));
    let mut both = described("FP32", 3072);
    both["data"] = json!(values());
    let both = json!({"inputs": [both]}).to_string();
    let listed = json!({"inputs": [{"name": "image", "shape": [3, 1, 16, 16], "datatype": "FP32", "data": values()}]});
    let two = json!({"inputs": [described("FP32", 3072), described("FP32", 3072)]}).to_string();
    let shared =
        good.replace("\"binary_data_size\":3072", "\"shared_memory_region\":\"x\",\"shared_memory_byte_size\":3072");
    for ((length, body), reason) in [
        // The header.
        ((whole.len().to_string(), whole.clone()), "the JSON of the request"),
        (((whole.len() + 1).to_string(), whole.clone()), "but the request has"),
        ((usize::MAX.to_string(), whole.clone()), "but the request has"),
        (("99999999999999999999999999".into(), whole.clone()), "the length of the JSON in bytes"),
        (("-1".into(), whole.clone()), "the length of the JSON in bytes"),
        ((format!("+{right}"), whole.clone()), "the length of the JSON in bytes"),
        (("0".into(), whole.clone()), "the JSON of the request"),
        (((good.len() - 1).to_string(), whole.clone()), "the JSON of the request"),
        (((good.len() + 1).to_string(), whole.clone()), "the JSON of the request"),
        // The size in the JSON.
        (with(&much, &tensor), "expected a `binary_data_size` of 3072 for [3, 1, 16, 16] of FP32, found 3073"),
        (with(&much, &[&tensor[..], &[0]].concat()), "expected a `binary_data_size` of 3072"),
        (with(&none, &tensor), "expected a `binary_data_size` of 3072"),
        (with(&none, b""), "expected a `binary_data_size` of 3072"),
        (with(&sized("18446744073709551615"), &tensor), "expected a `binary_data_size` of 3072"),
        (with(&sized("18446744073709551616"), &tensor), "the JSON of the request"),
        (with(&sized("1e400"), &tensor), "the JSON of the request"),
        (with(&sized("-3072"), &tensor), "the JSON of the request"),
        (with(&sized("3072.0"), &tensor), "the JSON of the request"),
        (with(&good.replace("FP32", "UINT8"), &tensor), "expected a `binary_data_size` of 768"),
        // What follows the JSON.
        (with(&good, &tensor[1..]), "expected 3072 bytes after the JSON, as `binary_data_size` says, found 3071"),
        (with(&good, &[&tensor[..], &[0]].concat()), "found 3073"),
        (with(&good, b""), "found 0"),
        (with(&both, &tensor), "found both"),
        (with(&listed.to_string(), &[0]), "expected nothing after the JSON, found 1 bytes"),
        (with(&two, &tensor), "expected one input"),
        (with(&shared, b""), "shared memory is not served"),
    ] {
        let (status, said) = service.post_with(INFER, &body, &[(LENGTH, &length)]).problem();
        assert!(status == 400 && said.contains(reason), "expected `{reason}`, found {status} {said}");
    }
    // Not a number: the client's, though the sizes are right.
    let odd = little_endian(&[f32::NAN; 768]);
    assert_eq!(service.post_with(INFER, &[good.as_bytes(), &odd].concat(), &[(LENGTH, &right)]).status, 422);
    assert_eq!(service.post_with(INFER, &whole, &[(LENGTH, &right)]).status, 200, "and it goes on");
}

/// zlib's format without compression: one block as it is.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let sums = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    let head = [0x78, 0x01, 0x01];
    [&head[..], &length.to_le_bytes(), &(!length).to_le_bytes(), bytes, &(sums.1 << 16 | sums.0).to_be_bytes()].concat()
}

#[test]
fn requests_may_be_packed() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let good = json!({"inputs": [described("FP32", 3072)]}).to_string();
    let packed = stored(&[good.as_bytes(), &little_endian(&values())].concat());
    // The length is that of the JSON as it was.
    let length = good.len().to_string();
    let send = |body: &[u8], coding| service.post_with(INFER, body, &[(LENGTH, &length), ("Content-Encoding", coding)]);
    let energies = send(&packed, "deflate").json()["outputs"][0]["data"].clone();
    assert_eq!(energies[2].as_f64().unwrap() as f32, expected()[2].energy);
    assert_eq!(send(&packed[..packed.len() - 1], "deflate").status, 400);
    assert_eq!(send(&packed, "gzip").status, 400);
    assert_eq!(send(&packed, "br").status, 415);
}

/// A few kilobytes, packed, are millions of numbers.
#[test]
fn numbers_without_end_are_refused_soon_and_keep_nobody_waiting() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    let numbers = "0,".repeat(8_000_000);
    let body =
        format!(r#"{{"inputs":[{{"name":"image","shape":[1,1,16,16],"datatype":"FP32","data":[{numbers}0]}}]}}"#);
    let threads = thread::available_parallelism().unwrap().get();
    let requests: Vec<_> = (0..threads + 2).map(|_| service.send(&format!("POST {INFER}"), &body)).collect();
    let begin = Instant::now();
    assert!(service.answers("/healthz", PATIENCE));
    let waited = begin.elapsed();
    for mut request in requests {
        let mut said = String::new();
        request.read_to_string(&mut said).unwrap();
        let reason = "expected at most 65536 numbers, found more";
        assert!(said.starts_with("HTTP/1.1 400") && said.contains(reason), "{said}");
    }
    assert!(waited < Duration::from_secs(2), "{waited:?}");
}

#[test]
fn server_model_and_version_describe_themselves() {
    let place = Place::new();
    let service = Service::start(&place.state(), &[]);
    assert_eq!(service.get("/v2").json()["extensions"], json!(["binary_tensor_data", "model_configuration"]));
    assert_eq!(service.get("/v2/health/live").json(), json!({"live": true}));
    assert_eq!(service.get("/v2/health/ready").json(), json!({"ready": true}));
    let model = service.get("/v2/models/digits").json();
    assert_eq!(model["inputs"], json!([{"name": "image", "datatype": "FP32", "shape": [-1, 1, 16, 16]}]));
    let [version] = model["versions"].as_array().unwrap().as_slice() else { panic!("{model}") };
    let version = version.as_str().unwrap();
    let of = |rest: &str| service.get(&format!("/v2/models/digits/versions/{version}{rest}"));
    assert_eq!(of("").json(), model);
    let config = service.get("/v2/models/digits/config").json();
    assert_eq!(config["input"], json!([{"name": "image", "data_type": "TYPE_FP32", "dims": [-1, 1, 16, 16]}]));
    assert_eq!(config["output"][2], json!({"name": "anomaly", "data_type": "TYPE_BOOL", "dims": [-1]}));
    assert_eq!(of("/config").json(), config);
    let ready = json!({"name": "digits", "ready": true});
    assert_eq!((of("/ready").json(), service.get("/v2/models/digits/ready").json()), (ready.clone(), ready));
    let (status, said) = of("/stats").problem();
    assert!(status == 501 && said.contains("/metrics"), "{status} {said}");

    let request =
        json!({"inputs": [{"name": "image", "shape": [1, 1, 16, 16], "datatype": "FP32", "data": vec![0.0; 256]}]});
    let request = request.to_string();
    let infer = |path: &str| service.post(&format!("/v2/models/{path}/infer"), request.as_bytes());
    let answer = infer(&format!("digits/versions/{version}")).json();
    assert_eq!((&answer["model_name"], &answer["model_version"]), (&json!("digits"), &json!(version)));

    let unknown = format!("there is no version `1` of this model; the only one is `{version}`");
    for path in ["", "/config", "/stats"] {
        let path = format!("/v2/models/digits/versions/1{path}");
        assert_eq!(service.get(&path).problem(), (404, unknown.clone()), "{path}");
    }
    assert_eq!(infer("digits/versions/1").problem(), (404, unknown));
    let other = (404, "there is no model of this name; the only one is `digits`".to_owned());
    assert_eq!((infer("other").problem(), service.get("/v2/models/other/config").problem()), (other.clone(), other));
    // Who has no token is not told the right names.
    assert_eq!(service.get("/v2/models/nosuch/ready").problem(), (404, "there is no model of this name".into()));
    let reason = "there is no model of this name and version".to_owned();
    assert_eq!(service.get("/v2/models/digits/versions/1/ready").problem(), (404, reason));
}

#[test]
fn scores_are_of_the_version_that_the_request_was_checked_against() {
    let place = Place::new();
    let path = place.path("digits.onnx");
    std::fs::copy(model(), &path).unwrap();
    let service = Service::try_start(&path, &place.state(), &[]).unwrap();
    let text = json!({"inputs": [described("FP32", 3072)]}).to_string();
    let whole = [text.as_bytes(), &little_endian(&values())].concat();
    let mut client = TcpStream::connect(&service.address).unwrap();
    // The service says that it waits for the body: the request was looked at until there.
    write!(
        client,
        "POST {INFER} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n{LENGTH}: {}\r\n\
         Content-Length: {}\r\n\r\n",
        text.len(),
        whole.len()
    )
    .unwrap();
    let mut waits = [0; 25];
    client.read_exact(&mut waits).unwrap();
    assert_eq!(&waits, b"HTTP/1.1 100 Continue\r\n\r\n");
    std::fs::copy(models().join("digits.nae"), &path).unwrap();
    assert_eq!(service.change("/api/reload", "{}").status, 200);
    client.write_all(&whole).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("the model was exchanged"), "{answer}");
    let length = text.len().to_string();
    assert_eq!(service.post_with(INFER, &whole, &[(LENGTH, &length)]).status, 200);
}
