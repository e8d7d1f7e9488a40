"""People who judge answers, for tests."""

from typing import Any

import httpx

from tests.support.service import JSON, Service


class Annotator:
    """Somebody with a key of their own."""

    def __init__(self, service: Service, name: str, role: str = "run", **limits: Any) -> None:
        self.service = service
        self.token: str = service.post("/keys", {"name": name, "role": role, **limits})["token"]

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.service.client.request(method, f"/api/v1{path}", headers=headers, json=body)

    def judge(self, run: JSON, number: int, judgement: str, **fields: Any) -> JSON:
        body = {"traceId": f"t-{number}", "judgement": judgement, **fields}
        response = self.send("POST", f"/benchmark-runs/{run['id']}/annotations", body)
        assert response.status_code == 201, response.text
        annotation: JSON = response.json()
        return annotation
