import re
from pathlib import Path
from typing import Any

import httpx

from ..server.support import until

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"


async def test_the_mounted_application_of_the_example_serves_the_demo() -> None:
    (source,) = (
        block for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S) if "mount" in block
    )
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, str(PAGE), "exec"), namespace)
    app, demo_app = namespace["app"], namespace["demo_app"]
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        await until(lambda: demo_app.state.runtime.host.manifest is not None)
        assert (await client.get("/demo/")).status_code == 200
        created = await client.post("/demo/api/sessions", json={})
        assert created.status_code == 201
        assert created.url.join(created.headers["location"]).path.startswith("/demo/api/sessions/")
