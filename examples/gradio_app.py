"""A Gradio application that contains a demo: ``python examples/gradio_app.py``, then open http://127.0.0.1:7860.

Both are parts of one FastAPI application, so they share an address; ``--allowed-origin`` is not needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import gradio as gr
import uvicorn
from fastapi import FastAPI

from realtime_engine.integrations.maze.demo import demo
from realtime_engine.server import ServerConfig, create_app

ELEMENT = '<realtime-engine src="demo/" title="The Maze" style="max-width: 800px"></realtime-engine>'
SCRIPT = '<script type="module" src="demo/realtime-engine.js"></script>'
RESET = "(seed) => { document.querySelector('realtime-engine').session?.reset({ seed }); }"

demo_app = create_app(demo, ServerConfig())

with gr.Blocks(title="The Maze") as blocks:
    gr.Markdown("# The Maze\nPress Play, then move with W, A, S and D.")
    gr.HTML(ELEMENT)
    seed = gr.Slider(0, 100, value=7, step=1, label="Seed")
    gr.Button("Start again with this seed").click(None, seed, None, js=RESET)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the demo as long as the application: a mounted application has no lifespan of its own."""
    async with demo_app.router.lifespan_context(demo_app):
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/demo", demo_app)
app = gr.mount_gradio_app(app, blocks, path="/", head=SCRIPT)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=7860, ws="websockets-sansio")
