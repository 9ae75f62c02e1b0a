from ..extras import skip_without

skip_without("serve")
