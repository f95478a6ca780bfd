# docker build -t unskew . && docker run -p 8000:8000 -v ./models:/models:ro -v shown:/shown unskew
# serves models/model. Mount the folder that holds the model's: saving a model replaces its folder.
FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt ".[serve]" \
    && useradd --create-home unskew && mkdir /shown && chown unskew /shown
USER unskew
# Kernels are compiled when first called, and kept here.
ENV NUMBA_CACHE_DIR=/home/unskew/numba
VOLUME /shown
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
CMD ["unskew", "serve", "/models/model", "--host", "0.0.0.0", "--port", "8000", "--log", "/shown"]
